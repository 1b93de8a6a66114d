"""Decides whether a script may keep state: something that a later record sees.

Only scripts that may call `flow.contains` are analysed. A script that keeps no state may be called twice for a record,
first with assumed answers; a script that keeps state must get true answers only. The analysis is conservative: a script
counts as keeping state unless its text shows that nothing can live on. With a value that reaches an object of the top
level a script may do no more than read, test and return it, hold it in a new object, and give it to its own functions.
What names hold and functions return is found by going over the script until nothing changes.
"""

import re
from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from headwater.sandbox.analysis import known_builtins
from headwater.sandbox.analysis.facts import MEMBERS, Facts, MayKeepState, targets
from headwater.sandbox.analysis.reach import ANYTHING, NOTHING, Reach
from headwater.sandbox.analysis.scopes import FUNCTIONS, resolve
from headwater.sandbox.analysis.tree import Script
from headwater.sandbox.analysis.values import CLASSES, Values

_MAX_ROUNDS, _MAX_VISITS = 20, 200_000
_MAX_DEPTH: Final = 500
"""A script with nodes that are nested more deeply counts as keeping state."""
_MAY_ASK: Final = re.compile(r"flow|\\u|globalThis|\bthis\b(?!\s*\.)")
"""Ways to `flow`: its name, perhaps with an escape, and the global object."""
_LOGICAL_ASSIGNMENT: Final = frozenset({"||=", "&&=", "??="})
_ACCESSORS: Final = frozenset({"get", "set"})


def may_ask(text: str) -> bool:
    """Whether a script may come by `flow` at all; for one that can't, no tree is needed."""
    return _MAY_ASK.search(text) is not None


def keeps_state(script: Script) -> bool:
    """Whether a later record may see something that `process` changed. False for a script that can't ask anything."""
    if not may_ask(script.text):
        return False
    if script.has_errors:
        return True
    try:
        _Analysis(script).run()
    except (MayKeepState, RecursionError):
        return True
    return False


class _Analysis:
    """Goes over all statements of a script.

    is_load, an argument of many methods, means that the code runs when the script is loaded, and never for a record.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._scopes = resolve(script)
        self._facts = Facts(script, self._scopes)
        self._values = Values(self._facts)
        self._at_load: set[int] = set()
        self._visits: list[tuple[Callable[[Node, bool], None], Node, bool]] = []
        self._around: dict[int, Node | None] = {}

    def run(self) -> None:
        """Return for a script that keeps no state. Raises MayKeepState for any other."""
        if self._scopes.depth > _MAX_DEPTH or self._scopes.is_ambiguous:
            raise MayKeepState
        self._check_names()
        self._plan()
        for _ in range(min(_MAX_ROUNDS, 3 + _MAX_VISITS // (len(self._visits) + 1))):
            self._facts.is_changed = False
            self._values.forget()
            for visit, node, is_load in self._visits:
                visit(node, is_load)
            if not self._facts.is_changed:
                return
        raise MayKeepState

    # ---- names and functions ----

    def _check_names(self) -> None:
        free = {self._script.text_of(node) for node in self._scopes.free}
        if free & known_builtins.FORBIDDEN_GLOBALS:
            raise MayKeepState
        if any(binding.name == "arguments" for binding in self._scopes.bindings.values()):
            raise MayKeepState

    def _plan(self) -> None:
        """Finds what to visit, and which functions run at once where they stand, while the script is loaded."""
        visitors = self._visitors()
        makes = runs_by_itself = False
        for node, function in self._scopes.nodes:
            kind = node.type
            is_load = function is None or function.id in self._at_load
            if kind in FUNCTIONS:
                self._around[node.id] = function
                if function is None and self._runs_at_once(node):
                    self._at_load.add(node.id)
                elif function is not None and is_load:
                    raise MayKeepState
                makes |= function is not None and not self._runs_at_once(node)
                runs_by_itself |= _runs_by_itself(node)
            elif kind in ("return_statement", "this"):
                self._around[node.id] = function
            makes |= kind in CLASSES
            visit = visitors.get(kind)
            if visit is not None:
                self._visits.append((visit, node, is_load))
        if makes and runs_by_itself:
            raise MayKeepState
        self._values.makes_objects = makes

    def _visitors(self) -> dict[str, Callable[[Node, bool], None]]:
        return {
            "variable_declarator": self._define,
            "assignment_expression": self._assign,
            "augmented_assignment_expression": self._assign,
            "update_expression": self._update,
            "unary_expression": self._delete,
            "for_in_statement": self._iterate,
            "catch_clause": self._catch,
            "call_expression": self._evaluate,
            "new_expression": self._evaluate,
            "return_statement": self._return,
            "arrow_function": self._return_body,
            "assignment_pattern": self._default,
            "object_assignment_pattern": self._default,
            "yield_expression": self._give_away,
            "throw_statement": self._give_away,
            "field_definition": self._field,
            "method_definition": self._method_definition,
            "class_heritage": self._heritage,
            "member_expression": self._member,
            "subscript_expression": self._member,
            "this": self._this,
            "object_pattern": self._pattern,
            "class_static_block": self._refuse,
            "with_statement": self._refuse,
            "import": self._refuse,
            "export_statement": self._refuse,
            "meta_property": self._refuse,
        }

    def _runs_at_once(self, function: Node) -> bool:
        """Whether a function is the direct argument of a method that does not keep functions: `LIST.map((x) => …)`."""
        arguments = function.parent
        call = None if arguments is None or arguments.type != "arguments" else arguments.parent
        if call is None or call.type != "call_expression":
            return False
        callee = call.child_by_field_name("function")
        if callee is None or self._facts.path(callee) in known_builtins.CALL_BACK:
            return callee is not None
        return callee.type == "member_expression" and self._facts.is_read(self._facts.property(callee))

    # ---- what code does ----

    def _refuse(self, _node: Node, _is_load: bool) -> None:
        raise MayKeepState

    def _evaluate(self, node: Node, is_load: bool) -> None:
        self._values.of(node, is_load)

    def _define(self, node: Node, is_load: bool) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and value is not None:
            self._facts.destructure(name, self._values.of(value, is_load))

    def _default(self, node: Node, is_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is not None and right is not None:
            self._facts.destructure(left, self._values.of(right, is_load))

    def _assign(self, node: Node, is_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            raise MayKeepState
        operator = node.child_by_field_name("operator")
        keeps_value = operator is None or operator.type in _LOGICAL_ASSIGNMENT
        self._write(left, self._values.of(right, is_load) if keeps_value else NOTHING, is_load)

    def _update(self, node: Node, is_load: bool) -> None:
        self._write(node.child_by_field_name("argument"), NOTHING, is_load)

    def _delete(self, node: Node, is_load: bool) -> None:
        if node.children[0].type == "delete":
            self._update(node, is_load)

    def _iterate(self, node: Node, is_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None:
            raise MayKeepState
        value = self._values.of(right, is_load).part()
        if operator is not None and operator.type == "in":
            value = NOTHING
        if node.child_by_field_name("kind") is None:
            self._write(left, value, is_load)
        else:
            self._facts.destructure(left, value)

    def _catch(self, node: Node, is_load: bool) -> None:
        parameter = node.child_by_field_name("parameter")
        if parameter is not None and is_load:
            self._facts.destructure(parameter, ANYTHING)

    def _return(self, node: Node, is_load: bool) -> None:
        function = self._around[node.id]
        if function is not None and node.named_children:
            self._facts.add_result(function, self._values.of(node.named_children[0], is_load))

    def _return_body(self, function: Node, _is_load: bool) -> None:
        body = function.child_by_field_name("body")
        if body is not None and body.type != "statement_block":
            self._facts.add_result(function, self._values.of(body, function.id in self._at_load))

    def _give_away(self, node: Node, is_load: bool) -> None:
        if not is_load and any(self._values.of(child, is_load).deep for child in node.named_children):
            raise MayKeepState

    def _field(self, node: Node, _is_load: bool) -> None:
        """A static member lives on like the class; one of an instance is as old as the instance."""
        value = node.child_by_field_name("value")
        if value is not None and self._values.of(value, is_load=node.children[0].type == "static").deep:
            raise MayKeepState

    def _method_definition(self, node: Node, _is_load: bool) -> None:
        """What methods return is not followed where they are called."""
        is_in_class = node.parent is not None and node.parent.type == "class_body"
        is_accessor = any(child.type in _ACCESSORS for child in node.children)
        if (is_in_class or is_accessor) and self._facts.returned.get(node.id, NOTHING).deep:
            raise MayKeepState

    def _heritage(self, node: Node, _is_load: bool) -> None:
        base = node.named_children[0]
        binding = self._facts.binding(base)
        is_class = binding is not None and binding.declaration.type == "class_declaration"
        if not is_class and self._facts.path(base) not in known_builtins.CLASSES:
            raise MayKeepState

    def _member(self, node: Node, is_load: bool) -> None:
        name = _member_name(node, self._script)
        if name in known_builtins.FORBIDDEN_MEMBERS:
            is_buffer = name == "buffer"
            if not is_buffer or self._values.of(node.child_by_field_name("object"), is_load).deep:
                raise MayKeepState

    def _pattern(self, node: Node, _is_load: bool) -> None:
        """Whatever takes such a member out of an object has it without a member expression."""
        for child in node.named_children:
            named = child.child_by_field_name("key" if child.type == "pair_pattern" else "left") or child
            if self._script.text_of(named).strip("\"'") in known_builtins.FORBIDDEN_MEMBERS:
                raise MayKeepState

    def _this(self, node: Node, _is_load: bool) -> None:
        """`this` is a new object in the methods and fields of a class that are not static, elsewhere it may be any."""
        owner = self._around[node.id]
        while owner is not None and owner.type == "arrow_function":
            owner = self._around[owner.id]
        if owner is None or owner.type == "class_static_block" or owner.children[0].type == "static":
            raise MayKeepState
        if owner.parent is None or owner.parent.type != "class_body":
            raise MayKeepState

    # ---- writing ----

    def _write(self, target: Node | None, value: Reach, is_load: bool) -> None:
        if target is None:
            raise MayKeepState
        for place in targets(target):
            if place.type in MEMBERS:
                self._write_member(place, value, is_load)
            elif is_load:
                self._facts.hold(self._facts.binding(place), value if target is place else ANYTHING)
            else:
                binding = self._facts.binding(place)
                if binding is None or binding.function is None:
                    raise MayKeepState
        if not is_load:
            self._facts.destructure(target, value)

    def _write_member(self, place: Node, value: Reach, is_load: bool) -> None:
        """In a record only to what this call made, and nothing that lives on; a table is filled while loading."""
        if is_load:
            self._facts.fill(place, value)
        else:
            owner = place.child_by_field_name("object")
            is_super = owner is not None and owner.type == "super"  # a write to `this`
            if is_super or value.deep or self._values.of(owner, is_load).is_kept:
                raise MayKeepState


def _runs_by_itself(function: Node) -> bool:
    """Whether nothing needs to call a method of an object or a class: a getter, or one that a built-in may look for."""
    if function.type != "method_definition" or function.parent is None:
        return False
    words = {child.type for child in function.children}
    if function.parent.type == "class_body" and "static" not in words:
        return False
    return not words.isdisjoint({*_ACCESSORS, "computed_property_name"})


def _member_name(node: Node, script: Script) -> str:
    """The name of a member as far as it is written."""
    if node.type == "member_expression":
        name = node.child_by_field_name("property")
    else:
        name = node.child_by_field_name("index")
        if name is not None and name.type != "string":
            return ""
    return "" if name is None else script.text_of(name).strip("\"'")
