"""Helpers for nodes of a syntax tree.

None of them is recursive, because a script may nest deeper than Python's stack.
"""

from collections.abc import Iterator

from tree_sitter import Node

_LISTS = ("object_pattern", "array_pattern", "rest_pattern", "formal_parameters")
_WITH_DEFAULT = ("assignment_pattern", "object_assignment_pattern")


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode(errors="replace")


def every_node(root: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, parents first, with tree-sitter's anonymous nodes."""
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
    """Yield the names that a pattern binds: `a` and `b` in `{ a, x: [b = c] }`.

    A member such as `a.b`, which can also be an assignment target, is not yielded.
    """
    remaining = [pattern]
    while remaining:
        node = remaining.pop()
        if node.type in ("identifier", "shorthand_property_identifier_pattern"):
            yield node
        elif node.type in _WITH_DEFAULT:
            remaining.append(node.named_children[0])
        elif node.type == "pair_pattern":
            remaining.append(node.named_children[-1])
        elif node.type in _LISTS:
            remaining += reversed(node.named_children)
