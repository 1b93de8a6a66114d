"""Converts ES and CommonJS modules to scripts.

The remaining source keeps its line and column numbers. A generated script begins with an added line, which the harness
recognises and does not count.
"""

from collections.abc import Iterator

from tree_sitter import Node

from headwater.errors import InvalidScript
from headwater.sandbox.analysis.nodes import bound_names, every_node, text_of
from headwater.sandbox.analysis.tree import ParsedScript

ENTRY_NAMES = ("process", "transform")
_GENERATED_MARKER = "/*made from a module*/"
_STRICT = f"{_GENERATED_MARKER}'use strict';\n"
_EXPORTS = "var module = { exports: {} }, exports = module.exports;\n"
_DEFAULT = "default"

_FIND_EXPORT = """
var process = typeof module.exports === "function" ? module.exports : module.exports.process ??
  module.exports.transform ?? module.exports.default;"""
_TWO_FUNCTIONS = "the script defines `process` and exports another function in its place: keep one of them"
_COMPARE_EXPORT = f"""
for (const exported of [module.exports, module.exports.process]) {{
  if (typeof exported === "function" && exported !== process) throw "{_TWO_FUNCTIONS}";
}}"""

_NO_IMPORT = "there is no `import`: paste what the script needs into it"
_ONLY_TYPES = f"{_NO_IMPORT}, and import types only by `import type`"
_UNSUPPORTED_FORM = "this is no export or import of JavaScript"


def is_module(script: ParsedScript) -> bool:
    """Return whether the top level imports or exports."""
    return any(node.type in ("import_statement", "export_statement") for node in script.root.children)


def from_common_js(script: ParsedScript) -> str:
    """Convert a CommonJS module, which sets `module.exports` or `exports`, to a script."""
    hash_bangs = [node for node in script.root.children if node.type == "hash_bang_line"]
    text = _apply_edits(script.source, [(node.start_byte, node.end_byte, "") for node in hash_bangs])
    first_line = f"{_GENERATED_MARKER}'use strict';" if _is_strict(script.root) else _GENERATED_MARKER
    last_lines = _COMPARE_EXPORT if "process" in declared_names(script.root) else _FIND_EXPORT
    return first_line + _EXPORTS + text + last_lines


def _is_strict(root: Node) -> bool:
    """Return whether a text begins with "use strict", after other directives and comments."""
    for statement in root.children:
        text = text_of(statement).rstrip("; \t\r\n") if statement.type == "expression_statement" else ""
        if text in ('"use strict"', "'use strict'"):
            return True
        is_directive = text != "" and statement.named_children[0].type == "string"
        if not is_directive and statement.type not in ("comment", "hash_bang_line"):
            return False
    return False


def require_no_import(script: ParsedScript) -> None:
    """Raise InvalidScript if the script contains `import(…)` or `import.meta`."""
    for node in every_node(script.root) if "import" in script.text else ():
        if node.type == "import" and node.is_named:
            raise error_at(script, node, _NO_IMPORT)


def error_at(script: ParsedScript, node: Node, reason: str) -> InvalidScript:
    """Return the error for a part of a script, with its line and column."""
    line, column = script.position(node)
    return InvalidScript(f"The script can't be loaded: line {line}, column {column}: {reason}.", line, column)


def entries_of_export_list(statement: Node) -> Iterator[tuple[str, Node]]:
    """Yield the entry points in a list of exports with their local names.

    `{ f as process, g }` exports the entry point `process`, whose local name is `f`.
    """
    for clause in statement.named_children:
        if clause.type == "export_clause" and any(name in text_of(clause) for name in (*ENTRY_NAMES, _DEFAULT)):
            for specifier in clause.named_children:
                name = text_of(specifier.children[-1]).strip("'\"")
                if specifier.type == "export_specifier" and name in (*ENTRY_NAMES, _DEFAULT):
                    yield name, specifier.children[0]


def declared_names(root: Node) -> set[str]:
    """Return the names of the functions, classes and variables that the top level declares."""
    return {text_of(name) for statement in root.children for name in _names_declared_by(_without_export(statement))}


def _without_export(statement: Node) -> Node:
    declaration = statement.child_by_field_name("declaration") if statement.type == "export_statement" else None
    return declaration or statement


def _names_declared_by(statement: Node) -> Iterator[Node]:
    if statement.type in ("lexical_declaration", "variable_declaration"):
        for declarator in statement.named_children:
            name = declarator.child_by_field_name("name")
            if name is not None:
                yield from bound_names(name)
    elif statement.type.endswith("_declaration") and (name := statement.child_by_field_name("name")):
        yield name


class Module:
    """Converts an ECMAScript module to a script by editing its imports and exports.

    Raises InvalidScript for a module that imports something, or whose imports and exports have an unsupported form.
    """

    def __init__(self, script: ParsedScript) -> None:
        self._script = script
        self._edits: list[tuple[int, int, str]] = []
        self._exports: dict[str, str] = {}
        self._declared = declared_names(script.root)
        self._default_export: tuple[Node, Node] | None = None
        """The statement `export default …` and its value."""
        self._read()

    def to_script(self, text: str) -> str:
        """Convert a text of the module to a script.

        `text` is the parsed text, or a text that has the same nodes at the same byte offsets. Raises InvalidScript when
        the module declares `process`, but exports another function as its entry point.
        """
        local = next((self._exports[name] for name in (*ENTRY_NAMES, _DEFAULT) if name in self._exports), "process")
        javascript = _STRICT + _apply_edits(text.encode(), self._edits)
        if local == "process":
            return javascript
        if "process" not in self._declared:
            return f"{javascript}\nvar process = {local};"
        raise InvalidScript(f"The script can't be loaded: {_TWO_FUNCTIONS}.")

    def _read(self) -> None:
        for statement in self._script.root.children:
            if statement.type == "hash_bang_line":
                self._edits.append((statement.start_byte, statement.end_byte, ""))
            elif statement.type == "import_statement":
                self._import(statement)
            elif statement.type == "export_statement":
                self._export(statement)
        if self._default_export is not None:  # last, because its conversion depends on the other exports
            self._convert_default_export(*self._default_export)

    def _erase(self, node: Node) -> None:
        """Replace a statement by a semicolon, so that the code around it stays two statements.

        Raises InvalidScript for a statement with syntax errors, because the parser also accepts `export enum A { B }`
        as a list of exports.
        """
        if node.has_error:
            raise error_at(self._script, node, _UNSUPPORTED_FORM)
        self._edits.append((node.start_byte, node.end_byte, ";"))

    def _import(self, statement: Node) -> None:
        """Erase an import of types, of which the type stripper left empty braces.

        Raises InvalidScript for any other import.
        """
        clauses = [child for child in statement.named_children if child.type == "import_clause"]
        if not clauses or text_of(clauses[0]).strip("{} \t\r\n"):
            raise error_at(self._script, statement, _ONLY_TYPES if clauses else _NO_IMPORT)
        self._erase(statement)

    def _export(self, statement: Node) -> None:
        if statement.child_by_field_name("source") is not None:
            raise error_at(self._script, statement, _NO_IMPORT)
        if any(child.is_error for child in statement.children):
            raise error_at(self._script, statement, _UNSUPPORTED_FORM)
        declaration = statement.child_by_field_name("declaration")
        value = statement.child_by_field_name("value")
        if declaration is not None:
            self._edits.append((statement.start_byte, declaration.start_byte, ""))
            self._export_declared(statement, declaration)
        elif value is not None:
            self._default_export = statement, value
        else:
            self._export_list(statement)

    def _export_declared(self, statement: Node, declaration: Node) -> None:
        names = [text_of(name) for name in _names_declared_by(declaration)]
        if any(child.type == _DEFAULT for child in statement.children):
            self._exports[_DEFAULT] = names[0]
        else:
            self._exports.update({name: name for name in names})

    def _export_list(self, statement: Node) -> None:
        self._exports.update({name: text_of(local) for name, local in entries_of_export_list(statement)})
        self._erase(statement)

    def _convert_default_export(self, statement: Node, value: Node) -> None:
        """Convert `export default` to a declaration of `process`.

        If the module exports `process` or `transform` by name, the default export is not the entry point, and only the
        words `export default` or the whole statement are erased. A name, as in `export default f`, is erased too;
        `to_script` then declares `process`.
        """
        exports_entry = any(name in self._exports for name in ENTRY_NAMES)
        if value.type == "identifier" and (exports_entry or text_of(value) == "process"):
            self._erase(statement)
        elif value.type == "identifier":
            self._erase(statement)
            self._exports[_DEFAULT] = text_of(value)
        elif exports_entry or ("process" in self._declared and _has_shorthand(value, "process")):
            # A statement can't begin with `{`, so `export default { process }` becomes `0,{ process }`.
            self._edits.append((statement.start_byte, value.start_byte, "0,"))
        elif "process" in self._declared:
            raise error_at(self._script, statement, _TWO_FUNCTIONS)
        elif value.type == "object":
            self._edits.append((statement.start_byte, value.start_byte, "var {process}="))
        elif value.type == "function_expression" and not any(child.type == "async" for child in value.children):
            parameters = value.child_by_field_name("parameters")
            assert parameters is not None
            self._edits.append((statement.start_byte, parameters.start_byte, "function process"))
        else:
            self._edits.append((statement.start_byte, value.start_byte, "var process ="))


def _has_shorthand(value: Node, name: str) -> bool:
    """Return whether a value is an object literal with this shorthand member.

    `{ process }` has the shorthand member `process`.
    """
    return value.type == "object" and any(
        member.type == "shorthand_property_identifier" and text_of(member) == name for member in value.named_children
    )


def _apply_edits(source: bytes, edits: list[tuple[int, int, str]]) -> str:
    """Return the text with each edited byte range blanked, and its replacement at its start."""
    parts, at = [], 0
    for start, end, replacement in sorted(edits):
        parts += [source[at:start].decode(), _blank(source[start:end].decode(), replacement)]
        at = end
    return "".join([*parts, source[at:].decode()])


def _blank(source: str, replacement: str) -> str:
    """Replace each UTF-16 unit of a text, except line breaks, by a space.

    The replacement is put into the first line.
    """
    blank = "".join(char if char in "\n\r\u2028\u2029" else "  " if char > "\uffff" else " " for char in source)
    first_line_length = next((i for i, char in enumerate(blank) if char != " "), len(blank))
    if len(replacement) <= first_line_length:
        return replacement + blank[len(replacement) :]
    return replacement + blank[first_line_length:]
