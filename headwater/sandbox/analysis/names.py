"""Which names a script uses that nothing in it declares."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tree_sitter import Node

from headwater.sandbox.analysis.nodes import bound_names, text_of
from headwater.sandbox.analysis.tree import Script

_DECLARATIONS = frozenset({"function_declaration", "generator_function_declaration"})


@dataclass(slots=True)
class _Scope:
    is_function: bool
    outer: "_Scope | None"
    names: set[str] = field(default_factory=set)

    def declares(self, name: str) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return True
            scope = scope.outer
        return False

    @property
    def function(self) -> "_Scope":
        """The scope of the function around it, or of the script."""
        scope = self
        while not scope.is_function and scope.outer is not None:
            scope = scope.outer
        return scope


def free_names(script: Script) -> dict[str, list[Node]]:
    """The uses of each name that is declared nowhere around them, in the order of their first use.

    A name that the script assigns to, or asks `typeof` of, counts as declared.
    """
    names = _Names(script)
    names.read()
    return names.free()


class _Names:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._top = _Scope(True, None)
        self._uses: list[tuple[str, Node, _Scope]] = []
        self._bindings: set[int] = set()
        self._assigned: set[str] = set()
        self._entering = self._handlers()

    def _handlers(self) -> dict[str, Callable[[Node, _Scope], _Scope]]:
        return {
            **dict.fromkeys(("identifier", "shorthand_property_identifier"), self._use),
            **dict.fromkeys(("variable_declaration", "lexical_declaration", "using_declaration"), self._declare),
            "export_specifier": self._export,
            **dict.fromkeys((*_DECLARATIONS, "function_expression", "generator_function"), self._function),
            **dict.fromkeys(("arrow_function", "method_definition", "class_static_block"), self._function),
            **dict.fromkeys(("class", "class_declaration"), self._class),
            **dict.fromkeys(("statement_block", "for_statement", "switch_body"), self._block),
            "catch_clause": self._catch,
            "for_in_statement": self._loop,
            "assignment_expression": self._assignment,
            "unary_expression": self._typeof,
        }

    def free(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for name, node, scope in self._uses:
            if name not in self._assigned and not scope.declares(name):
                found.setdefault(name, []).append(node)
        return found

    def read(self) -> None:
        """Walk the tree with the scope that each node is in."""
        cursor, open_scopes = self._script.root.walk(), [self._top]
        while True:
            node, scope = cursor.node, open_scopes[-1]
            assert node is not None
            enter = self._entering.get(node.type)
            if enter is not None:
                scope = enter(node, scope)
            if cursor.goto_first_child():
                open_scopes.append(scope)
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                open_scopes.pop()

    # ---- what a node declares or uses; each returns the scope of what is in it ----

    def _use(self, node: Node, scope: _Scope) -> _Scope:
        if node.start_byte not in self._bindings:
            self._uses.append((text_of(node), node, scope))
        return scope

    def _declare(self, node: Node, scope: _Scope) -> _Scope:
        target = scope.function if node.type == "variable_declaration" else scope
        for declarator in node.named_children:
            self._bind(declarator.child_by_field_name("name"), target)
        return scope

    def _export(self, node: Node, scope: _Scope) -> _Scope:
        """Of `f as process` the second name is a use of none."""
        self._bindings.update(alias.start_byte for alias in node.named_children[1:])
        return scope

    def _assignment(self, node: Node, scope: _Scope) -> _Scope:
        target = node.child_by_field_name("left")
        if target is not None and target.type == "member_expression":
            self._assign_global(target)
        self._assign(target)
        return scope

    def _typeof(self, node: Node, scope: _Scope) -> _Scope:
        if node.children[0].type == "typeof":
            self._assign(node.child_by_field_name("argument"))
        return scope

    def _function(self, node: Node, scope: _Scope) -> _Scope:
        name = node.child_by_field_name("name") if node.type != "method_definition" else None
        inner = _Scope(True, scope)
        if node.type in _DECLARATIONS:
            self._bind(name, scope)
            scope.function.names.update(map(text_of, filter(None, [name])))
        else:
            self._bind(name, inner)
        self._bind(node.child_by_field_name("parameters") or node.child_by_field_name("parameter"), inner)
        return inner

    def _class(self, node: Node, scope: _Scope) -> _Scope:
        inner = _Scope(False, scope)
        self._bind(node.child_by_field_name("name"), scope if node.type == "class_declaration" else inner)
        return inner

    def _block(self, _: Node, scope: _Scope) -> _Scope:
        return _Scope(False, scope)

    def _catch(self, node: Node, scope: _Scope) -> _Scope:
        inner = _Scope(False, scope)
        self._bind(node.child_by_field_name("parameter"), inner)
        return inner

    def _loop(self, node: Node, scope: _Scope) -> _Scope:
        inner = _Scope(False, scope)
        kind, left = node.child_by_field_name("kind"), node.child_by_field_name("left")
        if kind is None:
            self._assign(left)
        else:
            self._bind(left, inner.function if kind.type == "var" else inner)
        return inner

    # ---- names ----

    def _bind(self, pattern: Node | None, scope: _Scope) -> None:
        for node in bound_names(pattern) if pattern is not None else ():
            self._bindings.add(node.start_byte)
            scope.names.add(text_of(node))

    def _assign(self, target: Node | None) -> None:
        for node in bound_names(target) if target is not None else ():
            self._bindings.add(node.start_byte)
            self._assigned.add(text_of(node))

    def _assign_global(self, target: Node) -> None:
        holder, member = target.child_by_field_name("object"), target.child_by_field_name("property")
        if (
            holder is not None
            and member is not None
            and holder.type == "identifier"
            and text_of(holder) == "globalThis"
        ):
            self._assigned.add(text_of(member))
