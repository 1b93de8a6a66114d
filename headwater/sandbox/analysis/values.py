"""Computes which of the objects that live on from record to record an expression may reach."""

import re
from typing import Final

from tree_sitter import Node

from headwater.sandbox.analysis import known_builtins
from headwater.sandbox.analysis.facts import MEMBERS, PRIMITIVES, Facts, MayKeepState, parameters
from headwater.sandbox.analysis.nodes import text_of
from headwater.sandbox.analysis.reach import ANYTHING, NOTHING, Reach, join
from headwater.sandbox.analysis.scopes import FUNCTIONS

CLASSES: Final = frozenset({"class", "class_declaration"})
_LOGICAL: Final = frozenset({"||", "&&", "??"})
_STATEFUL_FLAGS: Final = re.compile("[gy]")


class Values:
    """What expressions may reach, by the facts that are known yet.

    is_load, an argument of many methods, means that the code runs when the script is loaded, and never for a record.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._memo: dict[int, Reach] = {}
        self.makes_objects = False
        """Whether the script has classes, or functions that make functions, whose results may keep something."""

    def forget(self) -> None:
        """Forget what was computed, since facts have changed."""
        self._memo.clear()

    def of(self, node: Node | None, is_load: bool) -> Reach:
        """What the value of an expression may reach. Raises MayKeepState where the value can't be followed."""
        if node is None or node.type in PRIMITIVES:
            return NOTHING
        found = self._memo.get(node.id)
        if found is None:
            found = self._memo[node.id] = self._value_of(node, node.type, is_load)
        return found

    def _value_of(self, node: Node, kind: str, is_load: bool) -> Reach:
        if kind in ("identifier", "shorthand_property_identifier"):
            return self._value_of_name(node)
        if kind in MEMBERS:
            return self._value_of_member(node, is_load)
        if kind == "call_expression":
            return self._value_of_call(node, is_load)
        if kind == "new_expression":
            return self._value_of_new(node, is_load)
        if kind in ("array", "object"):
            held = self._held_by(node, is_load)
            return held.kept() if is_load else held.held()
        if kind in FUNCTIONS:
            return self._value_of_function(node, lives_on=is_load)
        return self._value_of_operator(node, kind, is_load)

    def _value_of_operator(self, node: Node, kind: str, is_load: bool) -> Reach:
        match kind:
            case "parenthesized_expression" | "await_expression" | "sequence_expression":
                return self.of(node.named_children[-1], is_load)
            case "ternary_expression":
                branches = (node.child_by_field_name(name) for name in ("consequence", "alternative"))
                return join([self.of(branch, is_load) for branch in branches])
            case "binary_expression":
                operator = node.child_by_field_name("operator")
                if operator is None or operator.type not in _LOGICAL:
                    return NOTHING
                sides = (node.child_by_field_name(name) for name in ("left", "right"))
                return join([self.of(side, is_load) for side in sides])
            case "assignment_expression" | "augmented_assignment_expression":
                sides = (node.child_by_field_name(name) for name in ("left", "right"))
                return join([self.of(side, is_load) for side in sides if side is not None and not _is_pattern(side)])
            case "regex":
                return self._value_of_regex(node, is_load)
            case "class":
                return NOTHING.kept()
            case "spread_element":
                return self.of(node.named_children[0], is_load).part()
        raise MayKeepState

    def _value_of_regex(self, node: Node, is_load: bool) -> Reach:
        flags = node.child_by_field_name("flags")
        if is_load and flags is not None and _STATEFUL_FLAGS.search(self._facts.text_of(flags)):
            raise MayKeepState
        return NOTHING.kept() if is_load else NOTHING

    def _value_of_name(self, node: Node) -> Reach:
        binding = self._facts.binding(node)
        if binding is None:
            if self._facts.text_of(node) not in known_builtins.VALUES:
                raise MayKeepState
            return NOTHING
        held = self._facts.held.get(binding, NOTHING)
        declaration = binding.declaration
        if binding.kind == "parameter":
            return held
        if declaration.type in FUNCTIONS:
            is_expression = not declaration.type.endswith("declaration")
            lives_on = is_expression or binding.function is None
            return join((held, self._value_of_function(declaration, lives_on=lives_on)))
        if declaration.type in CLASSES:
            return join((held, NOTHING.kept()))
        return held

    def _value_of_function(self, function: Node, *, lives_on: bool) -> Reach:
        """What a function may reach: anything if it may return what lives on, since any caller gets that."""
        if self._facts.returned.get(function.id, NOTHING).deep:
            return ANYTHING
        return NOTHING.kept() if lives_on else NOTHING

    def _value_of_member(self, node: Node, is_load: bool) -> Reach:
        if self._facts.property(node) in ("length", "size"):
            return NOTHING
        if self._facts.path(node).partition(".")[0] in known_builtins.CONSTANT_OBJECTS:
            return NOTHING
        return self.of(node.child_by_field_name("object"), is_load).part()

    def _held_by(self, node: Node, is_load: bool) -> Reach:
        """What any member of an array or object literal may reach."""
        held = []
        for child in node.named_children:
            if child.type == "pair":
                if child.child(0) is not None and child.children[0].type == "computed_property_name":
                    self._require_no_function(child.child_by_field_name("value"))
                held.append(self.of(child.child_by_field_name("value"), is_load))
            elif child.type == "method_definition":
                held.append(self._value_of_function(child, lives_on=is_load))
            else:
                held.append(self.of(child, is_load))
        return join(held)

    def _require_no_function(self, value: Node | None) -> None:
        """Refuse a function under a computed name: a call could take it for a built-in method."""
        if value is not None and value.type in FUNCTIONS:
            raise MayKeepState

    def _value_of_new(self, node: Node, is_load: bool) -> Reach:
        constructor, given = node.child_by_field_name("constructor"), self._given(node, is_load)
        path = self._facts.path(constructor)
        if path in known_builtins.COLLECTIONS and not is_load:
            is_copy = path != "Array" and not given.part().deep
            return NOTHING if is_copy or not given.deep else Reach(1, given.kept().deep)
        if given.deep and (not is_load or path == "WeakMap"):
            raise MayKeepState
        if path in known_builtins.CLASSES:
            return given.kept() if is_load else NOTHING
        if path == "RegExp" and not is_load:
            return NOTHING
        binding = None if constructor is None else self._facts.binding(constructor)
        if is_load or binding is None or binding.declaration.type not in CLASSES:
            raise MayKeepState
        return NOTHING

    # ---- calls ----

    def _value_of_call(self, node: Node, is_load: bool) -> Reach:
        callee = node.child_by_field_name("function")
        while callee is not None and callee.type == "parenthesized_expression":
            callee = callee.named_children[-1]
        if callee is None or callee.type == "import":
            raise MayKeepState
        if callee.type == "super":
            return self._call_unknown(NOTHING, node, is_load)
        path = self._facts.path(callee)
        arguments = node.child_by_field_name("arguments")
        if arguments is not None and arguments.type == "template_string" and path != "String.raw":
            raise MayKeepState
        function = self._facts.callee(callee)
        if function is not None:
            return self._call_function(function, node, is_load)
        if path:
            return self._call_global(path, node, is_load)
        if callee.type == "member_expression":
            return self._call_method(callee, node, is_load)
        if callee.type == "subscript_expression" and self.of(callee.child_by_field_name("object"), is_load).deep:
            raise MayKeepState
        return self._call_unknown(self.of(callee, is_load), node, is_load)

    def _call_function(self, function: Node, node: Node, is_load: bool) -> Reach:
        if is_load:
            raise MayKeepState
        arguments = self._facts.arguments(node)
        values = [self.of(each, is_load) for each in arguments]
        patterns = parameters(function)
        if any(each.type == "spread_element" for each in arguments):
            values = [join(values)] * len(patterns)
        for number, parameter in enumerate(patterns):
            if parameter.type == "rest_pattern":
                self._facts.destructure(parameter, join(values[number:]))
            elif number < len(values):
                self._facts.destructure(parameter, values[number])
        return self._facts.returned.get(function.id, NOTHING)

    def _call_global(self, path: str, node: Node, is_load: bool) -> Reach:
        given = self._given(node, is_load)
        self._require_no_making(path, node, is_load)
        results = self._call_back(path, node, given)
        if path in known_builtins.COPIES:
            copies = join((given, results))
            copies = ANYTHING if path == "JSON.parse" else Reach(0, copies.kept().deep)
            held = given.part() if path in known_builtins.COPY_MEMBERS else given
            is_fresh = not held.deep and not results.deep
            return NOTHING if is_fresh and not is_load else copies
        if path == "Object.assign":
            return self._copy_members(node, is_load)
        if path not in known_builtins.PURE_CALLS and path.partition(".")[0] not in known_builtins.PURE_OBJECTS:
            raise MayKeepState
        return ANYTHING if is_load and path == "structuredClone" else NOTHING.kept() if is_load else NOTHING

    def _copy_members(self, node: Node, is_load: bool) -> Reach:
        """`Object.assign({}, …)`; into another object only what reaches nothing."""
        target, *sources = self._facts.arguments(node) or [node]
        values = [self.of(source, is_load) for source in sources]
        parts = join(
            [
                value if source.type == "spread_element" else value.part()
                for source, value in zip(sources, values, strict=True)
            ]
        )
        into = self.of(target, is_load)
        if target.type == "object":
            return join((into, parts.held()))
        if is_load or into.is_kept or parts.deep:
            raise MayKeepState
        return into

    def _call_method(self, callee: Node, node: Node, is_load: bool) -> Reach:
        name = self._facts.property(callee)
        owner, given = self.of(callee.child_by_field_name("object"), is_load), self._given(node, is_load)
        self._require_no_making(name, node, is_load)
        if self._facts.is_read(name):
            results = self._call_back(name, node, join((owner, given)))
            return self._read(name, node, owner, join((given, results)), is_load)
        if is_load and name in known_builtins.FILL:
            place = callee.child_by_field_name("object")
            if place is None:
                raise MayKeepState
            self._facts.fill(place, join((given, given.part())).kept())
            return ANYTHING
        if is_load or given.deep or (owner.is_kept and not self._is_own(name)):
            raise MayKeepState
        return ANYTHING if owner.deep >= ANYTHING.deep else NOTHING

    def _require_no_making(self, name: str, node: Node, is_load: bool) -> None:
        """What functions of the script make while it is loaded is not followed."""
        if not is_load or not self.makes_objects:
            return
        named = any(each.type == "identifier" and self._facts.callee(each) for each in self._facts.arguments(node))
        if name in self._facts.own_methods or (named and name not in known_builtins.SORT):
            raise MayKeepState

    def _is_own(self, name: str) -> bool:
        """Whether a method can only be one of the script's own, if it is none that reads."""
        changes = name in known_builtins.CHANGE or name.startswith("set")
        return name in self._facts.own_methods and not changes

    def _read(self, name: str, node: Node, owner: Reach, given: Reach, is_load: bool) -> Reach:
        """What a method that changes nothing may return."""
        if is_load and name in known_builtins.ITERATORS and not _is_consumed(node):
            raise MayKeepState
        if name in known_builtins.GIVE_PRIMITIVES:
            return NOTHING
        part = owner.part()
        if name in known_builtins.GIVE_MEMBERS:
            return part
        if is_load:
            return join((part, given)).kept().kept()
        return join((owner, given)).kept() if part.deep or given.deep else NOTHING

    def _call_unknown(self, callee: Reach, node: Node, is_load: bool) -> Reach:
        """A call of a function that is not known: it may be any of the script's own."""
        if is_load or self._given(node, is_load).deep:
            raise MayKeepState
        return ANYTHING if callee.deep else NOTHING

    def _call_back(self, name: str, node: Node, value: Reach) -> Reach:
        """Give the functions that a built-in function calls what it works on. Returns what they may return."""
        returned = []
        for number, given in enumerate(self._facts.arguments(node)):
            function = self._facts.callee(given)
            if function is not None:
                returned.append(self._facts.returned.get(function.id, NOTHING))
                for parameter in parameters(function):
                    self._facts.destructure(
                        parameter, join((value, returned[-1])).kept() if value.deep else returned[-1]
                    )
            elif value.deep and number == known_builtins.CALL_BACK.get(name) and not self._is_no_function(given):
                raise MayKeepState
        return join(returned)

    def _is_no_function(self, given: Node) -> bool:
        """Whether an argument is clearly no function of the script."""
        if given.type == "identifier" and self._facts.binding(given) is None:
            return True
        return given.type in PRIMITIVES or given.type in ("array", "object", "regex")

    def _given(self, node: Node, is_load: bool) -> Reach:
        """What the arguments of a call may reach, without the script's functions, whose results are followed."""
        values = []
        for each in self._facts.arguments(node):
            function = self._facts.callee(each)
            if function is None:
                values.append(self.of(each, is_load))
        return join(values)


def _is_pattern(node: Node) -> bool:
    return node.type in ("object_pattern", "array_pattern") or node.type in MEMBERS


def _is_consumed(node: Node) -> bool:
    """Whether an iterator is read to its end where it is made."""
    parent = node.parent
    if parent is None:
        return False
    if parent.type in ("spread_element", "for_in_statement"):
        return True
    call = parent.parent if parent.type == "arguments" else None
    if call is None or call.type not in ("call_expression", "new_expression"):
        return False
    called = call.child_by_field_name("function") or call.child_by_field_name("constructor")
    return called is not None and text_of(called) in known_builtins.READ_TO_THE_END
