"""Finds the functions of a script's top level."""

from collections.abc import Iterator

from tree_sitter import Node

from headwater.sandbox.analysis.nodes import text_of
from headwater.sandbox.analysis.tree import ParsedScript
from headwater.sandbox.validation.modules import ENTRY_NAMES, entries_of_export_list

_DECLARATIONS = ("function_declaration", "generator_function_declaration")
_VALUES = ("function_expression", "generator_function", "arrow_function")
_MAX_ALIASES = 5


def top_level_functions(script: ParsedScript) -> dict[str, Node]:
    """Return the functions of the top level by name, in the order of the text."""
    return {name: value for name, value in _bindings(script.root) if value.type in (*_DECLARATIONS, *_VALUES)}


def entry_point(script: ParsedScript) -> Node | None:
    """Return the function that is called with each record; None if the text does not show it."""
    bindings = dict(_bindings(script.root))
    value = next((bindings[name] for name in (*ENTRY_NAMES, "default") if name in bindings), None)
    for _ in range(_MAX_ALIASES):
        if value is None or value.type != "identifier":
            break
        value = bindings.get(text_of(value))
    return value if value is not None and value.type in (*_DECLARATIONS, *_VALUES) else None


def is_async(function: Node) -> bool:
    """Return whether a function is declared `async`."""
    return any(child.type == "async" for child in function.children)


def _bindings(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield the names and values of the top level's declarations, assignments and exports."""
    for statement in root.children:
        if statement.type == "export_statement":
            yield from _exported(statement)
        elif statement.type == "expression_statement":
            yield from _assigned(statement)
        else:
            yield from _declared(statement)


def _exported(statement: Node) -> Iterator[tuple[str, Node]]:
    value = statement.child_by_field_name("value")
    declaration = statement.child_by_field_name("declaration")
    if value is not None:
        yield "default", value
    if declaration is not None:
        is_default = any(child.type == "default" for child in statement.children)
        yield from (("default" if is_default else name, node) for name, node in _declared(declaration))
    yield from ((name, local) for name, local in entries_of_export_list(statement) if name != text_of(local))


def _declared(statement: Node) -> Iterator[tuple[str, Node]]:
    name = statement.child_by_field_name("name")
    if statement.type in _DECLARATIONS and name is not None:
        yield text_of(name), statement
    for declarator in statement.named_children if statement.type.endswith("_declaration") else ():
        name, value = declarator.child_by_field_name("name"), declarator.child_by_field_name("value")
        if declarator.type == "variable_declarator" and name is not None and value is not None:
            yield text_of(name), value


def _assigned(statement: Node) -> Iterator[tuple[str, Node]]:
    """Yield the names and values of an assignment such as `exports.process = f`.

    `module.exports = f` and `module.exports = { process: f }` are other forms.
    """
    assignment = statement.named_children[0] if statement.named_children else None
    if assignment is None or assignment.type != "assignment_expression":
        return
    left, value = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
    if left is None or value is None:
        return
    name = text_of(left)
    if name == "module.exports" and value.type == "object":
        yield from _members(value)
    else:
        name = "default" if name == "module.exports" else name.removeprefix("module.").removeprefix("exports.")
        yield name, value


def _members(value: Node) -> Iterator[tuple[str, Node]]:
    for pair in value.named_children:
        key, member = pair.child_by_field_name("key"), pair.child_by_field_name("value")
        if key is not None and member is not None:
            yield text_of(key), member
