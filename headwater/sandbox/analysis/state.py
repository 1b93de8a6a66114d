"""Decides whether a script may keep state that the processing of a later record observes.

Only scripts that may call `flow.contains` need this analysis (see analysed_script.py). A script without state may be
called several times for a record, with assumed answers; a stateful script must get only true answers. The analysis is
conservative: a script counts as stateful unless its text shows that nothing can survive. A value that reaches an object
of the top level may only be read, tested, returned, stored in a new object, and passed to the script's own functions.
The values of names and the results of functions are computed by a fixed-point iteration over the script.
"""

import re
from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from headwater.sandbox.analysis import known_builtins
from headwater.sandbox.analysis.evaluator import CLASS_NODES, ReachabilityEvaluator
from headwater.sandbox.analysis.facts import MEMBER_NODES, Facts, MayKeepState, targets
from headwater.sandbox.analysis.reachability import ANYTHING, NOTHING, Reachability
from headwater.sandbox.analysis.scopes import FUNCTION_NODES, resolve
from headwater.sandbox.analysis.tree import ParsedScript

_MAX_ROUNDS, _MAX_VISITS = 20, 200_000
"""A script that needs more rounds of the iteration, or about this many visits of nodes, counts as stateful.

Three rounds are always allowed.
"""
_MAX_DEPTH: Final = 500
"""A script with more deeply nested nodes counts as stateful."""
_FLOW_OBJECT: Final = re.compile(r"flow|\\u|globalThis|\bthis\b(?!\s*\.)")
"""The ways to reach `flow`: its name, possibly with an escape sequence, and the global object."""
_LOGICAL_ASSIGNMENT: Final = frozenset({"||=", "&&=", "??="})
_ACCESSORS: Final = frozenset({"get", "set"})


def may_use_flow_object(text: str) -> bool:
    """Return whether a script can obtain `flow` at all. If it can't, it needs no analysis."""
    return _FLOW_OBJECT.search(text) is not None


def may_keep_state(script: ParsedScript) -> bool:
    """Return whether a later record may observe a change that `process` made."""
    if script.has_errors:
        return True
    try:
        _Analysis(script).run()
    except (MayKeepState, RecursionError):
        return True
    return False


class _Analysis:
    """Visits all statements of a script until no fact changes.

    `at_load`, an argument of many methods, is True for code that runs only while the script is loaded.
    """

    def __init__(self, script: ParsedScript) -> None:
        self._script = script
        self._scopes = resolve(script)
        self._facts = Facts(script, self._scopes)
        self._evaluator = ReachabilityEvaluator(self._facts)
        self._load_time_functions: set[int] = set()
        self._visits: list[tuple[Callable[[Node, bool], None], Node, bool]] = []
        self._enclosing: dict[int, Node | None] = {}

    def run(self) -> None:
        """Raise MayKeepState if the script may keep state."""
        if self._scopes.depth > _MAX_DEPTH or self._scopes.is_ambiguous:
            raise MayKeepState
        self._check_names()
        self._plan_visits()
        for _ in range(min(_MAX_ROUNDS, 3 + _MAX_VISITS // (len(self._visits) + 1))):
            self._facts.is_changed = False
            self._evaluator.clear_cache()
            for visit, node, at_load in self._visits:
                visit(node, at_load)
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

    def _plan_visits(self) -> None:
        """Collect the nodes to visit, and the functions that run while the script is loaded."""
        visitors = self._visitors()
        creates_closures_or_instances = runs_implicitly = False
        for node, function in self._scopes.nodes:
            kind = node.type
            at_load = function is None or function.id in self._load_time_functions
            if kind in FUNCTION_NODES:
                self._enclosing[node.id] = function
                if function is None and self._runs_immediately(node):
                    self._load_time_functions.add(node.id)
                elif function is not None and at_load:
                    raise MayKeepState  # a closure that a load-time function creates may hold state
                creates_closures_or_instances |= function is not None and not self._runs_immediately(node)
                runs_implicitly |= _runs_implicitly(node)
            elif kind in ("return_statement", "this"):
                self._enclosing[node.id] = function
            creates_closures_or_instances |= kind in CLASS_NODES
            visit = visitors.get(kind)
            if visit is not None:
                self._visits.append((visit, node, at_load))
        if creates_closures_or_instances and runs_implicitly:
            raise MayKeepState
        self._evaluator.creates_closures_or_instances = creates_closures_or_instances

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
            "yield_expression": self._escape,
            "throw_statement": self._escape,
            "field_definition": self._field,
            "method_definition": self._method_definition,
            "class_heritage": self._heritage,
            "member_expression": self._member,
            "subscript_expression": self._member,
            "this": self._this,
            "object_pattern": self._pattern,
            "class_static_block": self._count_as_stateful,
            "with_statement": self._count_as_stateful,
            "import": self._count_as_stateful,
            "export_statement": self._count_as_stateful,
            "meta_property": self._count_as_stateful,
        }

    def _runs_immediately(self, function: Node) -> bool:
        """Return whether a function is an argument that is called at once: `LIST.map((x) => …)`."""
        arguments = function.parent
        call = None if arguments is None or arguments.type != "arguments" else arguments.parent
        if call is None or call.type != "call_expression":
            return False
        callee = call.child_by_field_name("function")
        if callee is None or self._facts.path(callee) in known_builtins.CALLBACK_ARGUMENT:
            return callee is not None
        return callee.type == "member_expression" and self._facts.is_pure_method(self._facts.property(callee))

    # ---- visitors ----

    def _count_as_stateful(self, _node: Node, _at_load: bool) -> None:
        raise MayKeepState

    def _evaluate(self, node: Node, at_load: bool) -> None:
        self._evaluator.evaluate(node, at_load)

    def _define(self, node: Node, at_load: bool) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and value is not None:
            self._facts.destructure(name, self._evaluator.evaluate(value, at_load))

    def _default(self, node: Node, at_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is not None and right is not None:
            self._facts.destructure(left, self._evaluator.evaluate(right, at_load))

    def _assign(self, node: Node, at_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            raise MayKeepState
        operator = node.child_by_field_name("operator")
        stores_right_side = operator is None or operator.type in _LOGICAL_ASSIGNMENT
        self._write(left, self._evaluator.evaluate(right, at_load) if stores_right_side else NOTHING, at_load)

    def _update(self, node: Node, at_load: bool) -> None:
        self._write(node.child_by_field_name("argument"), NOTHING, at_load)

    def _delete(self, node: Node, at_load: bool) -> None:
        if node.children[0].type == "delete":
            self._update(node, at_load)

    def _iterate(self, node: Node, at_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None:
            raise MayKeepState
        value = self._evaluator.evaluate(right, at_load).member()
        if operator is not None and operator.type == "in":
            value = NOTHING
        if node.child_by_field_name("kind") is None:
            self._write(left, value, at_load)
        else:
            self._facts.destructure(left, value)

    def _catch(self, node: Node, at_load: bool) -> None:
        parameter = node.child_by_field_name("parameter")
        if parameter is not None and at_load:
            self._facts.destructure(parameter, ANYTHING)

    def _return(self, node: Node, at_load: bool) -> None:
        function = self._enclosing[node.id]
        if function is not None and node.named_children:
            self._facts.add_result(function, self._evaluator.evaluate(node.named_children[0], at_load))

    def _return_body(self, function: Node, _at_load: bool) -> None:
        body = function.child_by_field_name("body")
        if body is not None and body.type != "statement_block":
            self._facts.add_result(function, self._evaluator.evaluate(body, function.id in self._load_time_functions))

    def _escape(self, node: Node, at_load: bool) -> None:
        if not at_load and any(
            self._evaluator.evaluate(child, at_load).reaches_something for child in node.named_children
        ):
            raise MayKeepState

    def _field(self, node: Node, _at_load: bool) -> None:
        """Check a class field.

        A static field survives like the class; others live as long as the instance.
        """
        value = node.child_by_field_name("value")
        if (
            value is not None
            and self._evaluator.evaluate(value, at_load=node.children[0].type == "static").reaches_something
        ):
            raise MayKeepState

    def _method_definition(self, node: Node, _at_load: bool) -> None:
        """Check a method, because the analysis does not track the results of method calls."""
        is_in_class = node.parent is not None and node.parent.type == "class_body"
        is_accessor = any(child.type in _ACCESSORS for child in node.children)
        if (is_in_class or is_accessor) and self._facts.reach_of_results.get(node.id, NOTHING).reaches_something:
            raise MayKeepState

    def _heritage(self, node: Node, _at_load: bool) -> None:
        base = node.named_children[0]
        binding = self._facts.binding(base)
        is_class = binding is not None and binding.declaration.type == "class_declaration"
        if not is_class and self._facts.path(base) not in known_builtins.BUILTIN_CLASSES:
            raise MayKeepState

    def _member(self, node: Node, at_load: bool) -> None:
        name = _member_name(node, self._script)
        if name in known_builtins.FORBIDDEN_MEMBERS:
            is_buffer = name == "buffer"
            if not is_buffer or self._evaluator.evaluate(node.child_by_field_name("object"), at_load).reaches_something:
                raise MayKeepState

    def _pattern(self, node: Node, _at_load: bool) -> None:
        """Check a pattern for forbidden members.

        Destructuring reads members without a member expression.
        """
        for child in node.named_children:
            named = child.child_by_field_name("key" if child.type == "pair_pattern" else "left") or child
            if self._script.text_of(named).strip("\"'") in known_builtins.FORBIDDEN_MEMBERS:
                raise MayKeepState

    def _this(self, node: Node, _at_load: bool) -> None:
        """Allow `this` only in instance methods and fields of a class, where it is a new object."""
        owner = self._enclosing[node.id]
        while owner is not None and owner.type == "arrow_function":
            owner = self._enclosing[owner.id]
        if owner is None or owner.type == "class_static_block" or owner.children[0].type == "static":
            raise MayKeepState
        if owner.parent is None or owner.parent.type != "class_body":
            raise MayKeepState

    # ---- writing ----

    def _write(self, left: Node | None, value: Reachability, at_load: bool) -> None:
        if left is None:
            raise MayKeepState
        for target in targets(left):
            if target.type in MEMBER_NODES:
                self._write_member(target, value, at_load)
            elif at_load:
                self._facts.add_value(self._facts.binding(target), value if target is left else ANYTHING)
            else:
                binding = self._facts.binding(target)
                if binding is None or binding.function is None:
                    raise MayKeepState
        if not at_load:
            self._facts.destructure(left, value)

    def _write_member(self, target: Node, value: Reachability, at_load: bool) -> None:
        """Check a write to a member.

        While a record is processed, only a value that reaches no surviving object may be written, and only to an
        object that this call created. While the script is loaded, the top level may fill its objects, so the value is
        only recorded.
        """
        if at_load:
            self._facts.add_to_object(target, value)
        else:
            owner = target.child_by_field_name("object")
            is_super = owner is not None and owner.type == "super"  # `super.x = …` writes to `this`
            if is_super or value.reaches_something or self._evaluator.evaluate(owner, at_load).survives:
                raise MayKeepState


def _runs_implicitly(function: Node) -> bool:
    """Return whether a method may run without a call in the text.

    It is an accessor, or one that a built-in may look up.
    """
    if function.type != "method_definition" or function.parent is None:
        return False
    words = {child.type for child in function.children}
    if function.parent.type == "class_body" and "static" not in words:
        return False
    return not words.isdisjoint({*_ACCESSORS, "computed_property_name"})


def _member_name(node: Node, script: ParsedScript) -> str:
    """Return the name of a member; "" if it is computed."""
    if node.type == "member_expression":
        name = node.child_by_field_name("property")
    else:
        name = node.child_by_field_name("index")
        if name is not None and name.type != "string":
            return ""
    return "" if name is None else script.text_of(name).strip("\"'")
