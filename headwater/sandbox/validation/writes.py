"""Finds the members of objects to which a script writes while records are processed."""

import re

from tree_sitter import Node

from headwater.sandbox.analysis.nodes import text_of
from headwater.sandbox.analysis.tree import Script

_DEFINING = re.compile(r"(Object|Reflect)\.(defineProperty|defineProperties|assign|setPrototypeOf)")
_MAX_DEFINING_BYTES = 40
_FUNCTIONS = frozenset({
    "function_declaration", "generator_function_declaration", "function_expression", "generator_function",
    "arrow_function", "method_definition",
})  # fmt: skip
_WRITES = frozenset({"assignment_expression", "augmented_assignment_expression", "update_expression"})


def holder(target: Node) -> Node:
    """Return the object at the start of a path of members: `a` in `a.b[c].d`."""
    while target.type in ("member_expression", "subscript_expression"):
        inner = target.child_by_field_name("object")
        assert inner is not None
        target = inner
    return target


def writes_in_functions(script: Script) -> list[Node]:
    """Return the member expressions to which functions write that run per record.

    The text does not show all of them.
    """
    walk = _Walk()
    walk.read(script.root)
    return [target for target, functions in walk.writes if not functions & walk.called_at_top_level]


def _is_defining(called: Node) -> bool:
    """Return whether a function writes to its first argument.

    The text of a long chain of calls is not read.
    """
    is_short = called.end_byte - called.start_byte <= _MAX_DEFINING_BYTES
    return is_short and _DEFINING.fullmatch(text_of(called)) is not None


class _Walk:
    """Walks a tree with the names of the functions that enclose each node.

    Attributes:
        writes: The targets of writes, each with the names of its enclosing functions.
        called_at_top_level: The names of functions that the top level calls.
        _inlined_at_top_level: The ids of function nodes that the top level calls, or passes to a call, where they are
            written.
    """

    def __init__(self) -> None:
        self.writes: list[tuple[Node, frozenset[str]]] = []
        self.called_at_top_level: set[str] = set()
        self._inlined_at_top_level: set[int] = set()

    def read(self, root: Node) -> None:
        cursor = root.walk()
        around: list[frozenset[str] | None] = [None]
        while True:
            node = cursor.node
            assert node is not None
            inside = self._enter(node, around[-1])
            if cursor.goto_first_child():
                around.append(inside)
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                around.pop()

    def _enter(self, node: Node, functions: frozenset[str] | None) -> frozenset[str] | None:
        """Process a node.

        Returns the names of the functions that enclose its children; None at the top level.
        """
        kind = node.type
        if kind in _FUNCTIONS and node.id not in self._inlined_at_top_level:
            name = node.child_by_field_name("name")
            return (functions or frozenset()) | {text_of(name) if name is not None else ""}
        if kind == "call_expression":
            self._call(node, functions)
        elif functions is not None and kind in _WRITES:
            self._write(node.child_by_field_name("left") or node.child_by_field_name("argument"), functions)
        elif functions is not None and kind == "unary_expression" and node.children[0].type == "delete":
            self._write(node.child_by_field_name("argument"), functions)
        return functions

    def _call(self, node: Node, functions: frozenset[str] | None) -> None:
        called, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        if functions is None:
            while called is not None and called.type == "parenthesized_expression":
                called = called.named_children[0]
            if called is not None and called.type == "identifier":
                self.called_at_top_level.add(text_of(called))
            self._inlined_at_top_level.update(one.id for one in [called, *given] if one is not None)
        elif called is not None and given and _is_defining(called):
            self._write(given[0], functions)

    def _write(self, target: Node | None, functions: frozenset[str]) -> None:
        if target is not None and target.type in ("member_expression", "subscript_expression"):
            self.writes.append((target, functions))
