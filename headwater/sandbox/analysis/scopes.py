"""Resolves each identifier of a script to its declaration.

The rules are in ECMA-262, section "Syntax-Directed Operations: Scope Analysis". `var` declares a name in the
enclosing function; functions, `let`, `const` and classes declare it in the block. Identifiers without a declaration
are globals.
"""

from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Node

from headwater.sandbox.analysis.nodes import bound_names
from headwater.sandbox.analysis.tree import ParsedScript

FUNCTION_NODES: Final = frozenset(
    {
        "function_declaration",
        "function_expression",
        "generator_function",
        "generator_function_declaration",
        "arrow_function",
        "method_definition",
        "class_static_block",
        "field_definition",
    }
)
"""Nodes whose code runs at another time or has its own `this`, including the values of class fields."""
_BLOCKS: Final = FUNCTION_NODES | {
    "program",
    "statement_block",
    "for_statement",
    "for_in_statement",
    "catch_clause",
    "switch_body",
    "class_body",
    "class",
    "class_declaration",
}
_NAMED_DECLARATIONS: Final = frozenset({"function_declaration", "generator_function_declaration", "class_declaration"})
_NAMED_EXPRESSIONS: Final = frozenset({"function_expression", "generator_function", "class"})
_DECLARING: Final = (
    FUNCTION_NODES
    | _NAMED_DECLARATIONS
    | _NAMED_EXPRESSIONS
    | {"variable_declarator", "for_in_statement", "catch_clause"}
)
_LEAVES: Final = frozenset(
    {"property_identifier", "private_property_identifier", "string", "string_fragment", "number"}
)
_REFERENCES: Final = frozenset({"identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern"})


@dataclass(slots=True, eq=False)
class Binding:
    """A declared name.

    Attributes:
        name: The name.
        kind: The keyword or node type of the declaration, such as `let` or "parameter".
        declaration: The node that declares the name first.
        function: The enclosing function; None at the top level.
        is_unique: Whether the name has only one declaration.
    """

    name: str
    kind: str
    declaration: Node
    function: Node | None
    is_unique: bool = True


@dataclass(slots=True, eq=False)
class _Scope:
    node: Node
    parent: "_Scope | None"
    function: Node | None
    bindings: dict[str, Binding] = field(default_factory=dict)

    def function_scope(self) -> "_Scope":
        """Return the scope of the enclosing function or program, where `var` declares names."""
        scope = self
        while scope.parent is not None and scope.node.type not in FUNCTION_NODES:
            scope = scope.parent
        return scope

    def find(self, name: str) -> Binding | None:
        scope: _Scope | None = self
        while scope is not None:
            if (binding := scope.bindings.get(name)) is not None:
                return binding
            scope = scope.parent
        return None


@dataclass(slots=True)
class Scopes:
    """The bindings of a script.

    Attributes:
        bindings: The binding of each identifier, by the id of its node.
        free: The identifiers without a declaration.
        nodes: All nodes except names, strings and numbers, each with its enclosing function; None at the top level.
        depth: The largest nesting depth of the nodes.
        is_ambiguous: Whether a parameter default uses a name that the function body also declares with `var`, so that
            two bindings exist.
    """

    bindings: dict[int, Binding]
    free: list[Node]
    nodes: list[tuple[Node, Node | None]]
    depth: int
    is_ambiguous: bool


def resolve(script: ParsedScript) -> Scopes:
    """Find the binding of each identifier of a script."""
    return _Resolver(script).resolve()


class _Resolver:
    def __init__(self, script: ParsedScript) -> None:
        self._script = script
        self._program = _Scope(script.root, None, None)
        self._declared: dict[int, Binding] = {}
        self._used: list[tuple[Node, _Scope]] = []
        self._nodes: list[tuple[Node, Node | None]] = []
        self._depth = 0

    def resolve(self) -> Scopes:
        self._collect()
        bindings, free, is_ambiguous = dict(self._declared), list[Node](), False
        for node, scope in self._used:
            if node.id in self._declared:
                continue
            binding = scope.find(self._script.text_of(node))
            if binding is None:
                free.append(node)
            else:
                bindings[node.id] = binding
                is_ambiguous |= (
                    binding.kind == "var" and scope.node.type in FUNCTION_NODES and scope.node == binding.function
                )
        return Scopes(bindings, free, self._nodes, self._depth, is_ambiguous)

    def _collect(self) -> None:
        """Walk the tree with a cursor, which is several times as fast as lists of children."""
        cursor, scopes = self._script.root.walk(), [self._program]
        while True:
            node = cursor.node
            scope = scopes[-1]
            if node is not None and node.is_named:
                scope = self._enter(node, node.type, scope)
            if cursor.goto_first_child():
                scopes.append(scope)
                self._depth = max(self._depth, len(scopes))
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                scopes.pop()

    def _enter(self, node: Node, kind: str, outside: _Scope) -> _Scope:
        """Process a node, and return the scope of its children."""
        if kind in _REFERENCES:
            self._used.append((node, outside))
            return outside
        if kind not in _LEAVES:
            self._nodes.append((node, outside.function))
        scope = _open_scope(node, outside) if kind in _BLOCKS else outside
        if kind in _DECLARING:
            self._declare(node, kind, scope, outside)
        return scope

    def _declare(self, node: Node, kind: str, scope: _Scope, outside: _Scope) -> None:
        if kind == "variable_declarator" and node.parent is not None:
            self._declare_variables(node, node.parent, scope)
        elif kind in _NAMED_DECLARATIONS:
            self._bind(outside, node.child_by_field_name("name"), kind, node)
        elif kind in _NAMED_EXPRESSIONS:
            self._bind(scope, node.child_by_field_name("name"), kind, node)
        elif kind == "for_in_statement" and (keyword := node.child_by_field_name("kind")) is not None:
            target = scope.function_scope() if keyword.type == "var" else scope
            self._bind_pattern(target, node.child_by_field_name("left"), keyword.type, node)
        elif kind == "catch_clause":
            self._bind_pattern(scope, node.child_by_field_name("parameter"), "catch", node)
        if kind in FUNCTION_NODES:
            for name in ("parameters", "parameter"):
                self._bind_pattern(scope, node.child_by_field_name(name), "parameter", node)

    def _declare_variables(self, node: Node, declaration: Node, scope: _Scope) -> None:
        is_var = declaration.type == "variable_declaration"
        keyword = "var" if is_var else declaration.children[0].type
        target = scope.function_scope() if is_var else scope
        self._bind_pattern(target, node.child_by_field_name("name"), keyword, node)

    def _bind_pattern(self, scope: _Scope, pattern: Node | None, kind: str, declaration: Node) -> None:
        for name in bound_names(pattern) if pattern is not None else ():
            self._bind(scope, name, kind, declaration)

    def _bind(self, scope: _Scope, name: Node | None, kind: str, declaration: Node) -> None:
        if name is None:
            return
        text = self._script.text_of(name)
        binding = scope.bindings.get(text)
        if binding is None:
            binding = scope.bindings[text] = Binding(text, kind, declaration, scope.function)
        else:
            binding.is_unique = False
        self._declared[name.id] = binding


def _open_scope(node: Node, outside: _Scope) -> _Scope:
    if node.type == "program":
        return outside
    return _Scope(node, outside, node if node.type in FUNCTION_NODES else outside.function)
