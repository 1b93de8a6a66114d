"""Helpers for nodes of a syntax tree. All are iterative: a script may be nested deeper than Python's stack."""

from collections.abc import Iterator

from tree_sitter import Node

_LISTS = ("object_pattern", "array_pattern", "rest_pattern", "formal_parameters")
_WITH_DEFAULT = ("assignment_pattern", "object_assignment_pattern")


def text_of(node: Node) -> str:
    """The text of a node."""
    return (node.text or b"").decode(errors="replace")


def every_node(root: Node) -> Iterator[Node]:
    """A node and all nodes below it, parents first, also those that tree-sitter counts as unnamed."""
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node is not None
        yield node
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def bound_names(pattern: Node) -> Iterator[Node]:
    """The names that a pattern binds: `a` and `b` in `{ a, x: [b = c] }`.

    A member such as `a.b`, which an assignment may write to, is no name.
    """
    waiting = [pattern]
    while waiting:
        node = waiting.pop()
        if node.type in ("identifier", "shorthand_property_identifier_pattern"):
            yield node
        elif node.type in _WITH_DEFAULT:
            waiting.append(node.named_children[0])
        elif node.type == "pair_pattern":
            waiting.append(node.named_children[-1])
        elif node.type in _LISTS:
            waiting += reversed(node.named_children)
