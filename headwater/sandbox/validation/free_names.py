"""Finds the names that a script uses but does not declare."""

from collections.abc import Iterator

from tree_sitter import Node

from headwater.sandbox.analysis.nodes import bound_names, text_of
from headwater.sandbox.analysis.scopes import resolve
from headwater.sandbox.analysis.tree import ParsedScript

_DECLARATIONS = frozenset({"function_declaration", "generator_function_declaration"})


def find_free_names(script: ParsedScript) -> dict[str, list[Node]]:
    """Return the uses of each name that no enclosing scope declares, in the order of first use.

    A name counts as declared if the script assigns to it or applies `typeof` to it. So does a function declared in a
    block, because JavaScript also declares it in the enclosing function.
    """
    scopes = resolve(script)
    nodes = [node for node, _ in scopes.nodes]
    declared = {text_of(name) for node in nodes for name in _declared(node)}
    aliases = {alias.id for node in nodes if node.type == "export_specifier" for alias in node.named_children[1:]}
    uses: dict[str, list[Node]] = {}
    for use in scopes.free:
        name = text_of(use)
        if name not in declared and use.id not in aliases:
            uses.setdefault(name, []).append(use)
    return uses


def _declared(node: Node) -> Iterator[Node]:
    """Yield the names that a node declares for the whole script."""
    match node.type:
        case "assignment_expression":
            yield from _assigned(node.child_by_field_name("left"))
        case "for_in_statement" if node.child_by_field_name("kind") is None:
            yield from _assigned(node.child_by_field_name("left"))
        case "unary_expression" if node.children[0].type == "typeof":
            yield from _assigned(node.child_by_field_name("argument"))
        case kind if kind in _DECLARATIONS:
            yield from _assigned(node.child_by_field_name("name"))


def _assigned(target: Node | None) -> Iterator[Node]:
    if target is None:
        return
    owner, member = target.child_by_field_name("object"), target.child_by_field_name("property")
    if owner is not None and member is not None and text_of(owner) == "globalThis":
        yield member
    yield from bound_names(target)
