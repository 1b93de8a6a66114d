"""Finds the members of objects to which a script writes while it processes records."""

import re

from tree_sitter import Node

from headwater.sandbox.analysis.nodes import text_of
from headwater.sandbox.analysis.tree import ParsedScript

_DEFINING = re.compile(r"(Object|Reflect)\.(defineProperty|defineProperties|assign|setPrototypeOf)")
_MAX_DEFINING_BYTES = 40
_FUNCTIONS = frozenset({
    "function_declaration", "generator_function_declaration", "function_expression", "generator_function",
    "arrow_function", "method_definition",
})  # fmt: skip
_WRITES = frozenset({"assignment_expression", "augmented_assignment_expression", "update_expression"})


def written_object(target: Node) -> Node:
    """Return the object at the start of a path of members: `a` in `a.b[c].d`."""
    while target.type in ("member_expression", "subscript_expression"):
        inner = target.child_by_field_name("object")
        assert inner is not None
        target = inner
    return target


def writes_in_functions(script: ParsedScript) -> list[Node]:
    """Return the members that are written inside functions.

    Functions that the top level calls are excluded.

    The result is incomplete, because the text does not show all writes.
    """
    walk = _Walk()
    walk.visit_all(script.root)
    return [target for target, functions in walk.writes if not functions & walk.called_at_top_level]


def _is_defining(callee: Node) -> bool:
    """Return whether a function is a built-in one that writes to its first argument.

    The text of a long expression is not read.
    """
    is_short = callee.end_byte - callee.start_byte <= _MAX_DEFINING_BYTES
    return is_short and _DEFINING.fullmatch(text_of(callee)) is not None


class _Walk:
    """Walks a tree with the names of the functions that enclose each node.

    Attributes:
        writes: The targets of writes, each with the names of its enclosing functions.
        called_at_top_level: The names of functions that the top level calls.
        _inlined_at_top_level: The ids of function expressions that the top level calls, or passes to a call.
    """

    def __init__(self) -> None:
        self.writes: list[tuple[Node, frozenset[str]]] = []
        self.called_at_top_level: set[str] = set()
        self._inlined_at_top_level: set[int] = set()

    def visit_all(self, root: Node) -> None:
        """Visit a node and all nodes below it."""
        cursor = root.walk()
        enclosing: list[frozenset[str] | None] = [None]
        while True:
            node = cursor.node
            assert node is not None
            enclosing_of_children = self._enter(node, enclosing[-1])
            if cursor.goto_first_child():
                enclosing.append(enclosing_of_children)
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                enclosing.pop()

    def _enter(self, node: Node, functions: frozenset[str] | None) -> frozenset[str] | None:
        """Process a node.

        Returns the names of the functions that enclose its children; None at the top level.
        """
        kind = node.type
        if kind in _FUNCTIONS and node.id not in self._inlined_at_top_level:
            name = node.child_by_field_name("name")
            return (functions or frozenset()) | {text_of(name) if name is not None else ""}
        if kind == "call_expression":
            self._visit_call(node, functions)
        elif functions is not None and kind in _WRITES:
            self._write(node.child_by_field_name("left") or node.child_by_field_name("argument"), functions)
        elif functions is not None and kind == "unary_expression" and node.children[0].type == "delete":
            self._write(node.child_by_field_name("argument"), functions)
        return functions

    def _visit_call(self, node: Node, functions: frozenset[str] | None) -> None:
        callee, arguments_node = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        arguments = arguments_node.named_children if arguments_node is not None else []
        if functions is None:
            while callee is not None and callee.type == "parenthesized_expression":
                callee = callee.named_children[0]
            if callee is not None and callee.type == "identifier":
                self.called_at_top_level.add(text_of(callee))
            self._inlined_at_top_level.update(child.id for child in [callee, *arguments] if child is not None)
        elif callee is not None and arguments and _is_defining(callee):
            self._write(arguments[0], functions)

    def _write(self, target: Node | None, functions: frozenset[str]) -> None:
        if target is not None and target.type in ("member_expression", "subscript_expression"):
            self.writes.append((target, functions))
