"""Computes which surviving objects the value of an expression can reach.

A surviving object exists from one record to the next.
"""

import re
from typing import Final

from tree_sitter import Node

from headwater.sandbox.analysis import known_builtins
from headwater.sandbox.analysis.facts import MEMBER_NODES, NODES_THAT_REACH_NOTHING, Facts, MayKeepState, parameters
from headwater.sandbox.analysis.nodes import text_of
from headwater.sandbox.analysis.reachability import ANYTHING, NOTHING, Reachability, join
from headwater.sandbox.analysis.scopes import FUNCTION_NODES

CLASS_NODES: Final = frozenset({"class", "class_declaration"})
_LOGICAL: Final = frozenset({"||", "&&", "??"})
_STATEFUL_FLAGS: Final = re.compile("[gy]")


class ReachabilityEvaluator:
    """Computes the reachability of expressions from the facts that are known so far.

    `at_load`, an argument of many methods, is True for code that runs only while the script is loaded.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._memo: dict[int, Reachability] = {}
        self.creates_closures_or_instances = False
        """Whether the script has classes, or functions that create functions. Instances and closures may hold state."""

    def clear_cache(self) -> None:
        """Clear the cached results, because facts have changed."""
        self._memo.clear()

    def evaluate(self, node: Node | None, at_load: bool) -> Reachability:
        """Return the reachability of the value of an expression.

        Raises MayKeepState when the value can't be tracked.
        """
        if node is None or node.type in NODES_THAT_REACH_NOTHING:
            return NOTHING
        cached = self._memo.get(node.id)
        if cached is None:
            cached = self._memo[node.id] = self._evaluate_node(node, node.type, at_load)
        return cached

    def _evaluate_node(self, node: Node, kind: str, at_load: bool) -> Reachability:
        if kind in ("identifier", "shorthand_property_identifier"):
            return self._reach_of_name(node)
        if kind in MEMBER_NODES:
            return self._reach_of_member(node, at_load)
        if kind == "call_expression":
            return self._reach_of_call(node, at_load)
        if kind == "new_expression":
            return self._reach_of_new(node, at_load)
        if kind in ("array", "object"):
            members = self._reach_of_members(node, at_load)
            return members.in_surviving_object() if at_load else members.in_new_object()
        if kind in FUNCTION_NODES:
            return self._reach_of_function(node, survives=at_load)
        return self._reach_of_operator(node, kind, at_load)

    def _reach_of_operator(self, node: Node, kind: str, at_load: bool) -> Reachability:
        match kind:
            case "parenthesized_expression" | "await_expression" | "sequence_expression":
                return self.evaluate(node.named_children[-1], at_load)
            case "ternary_expression":
                branches = (node.child_by_field_name(name) for name in ("consequence", "alternative"))
                return join([self.evaluate(branch, at_load) for branch in branches])
            case "binary_expression":
                operator = node.child_by_field_name("operator")
                if operator is None or operator.type not in _LOGICAL:
                    return NOTHING
                sides = (node.child_by_field_name(name) for name in ("left", "right"))
                return join([self.evaluate(side, at_load) for side in sides])
            case "assignment_expression" | "augmented_assignment_expression":
                left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
                value = self.evaluate(right, at_load)
                if left is None or _is_pattern_or_member(left):
                    return value
                return join((self.evaluate(left, at_load), value))
            case "regex":
                return self._reach_of_regex(node, at_load)
            case "class":
                return NOTHING.in_surviving_object()
            case "spread_element":
                return self.evaluate(node.named_children[0], at_load).member()
        raise MayKeepState

    def _reach_of_regex(self, node: Node, at_load: bool) -> Reachability:
        flags = node.child_by_field_name("flags")
        if at_load and flags is not None and _STATEFUL_FLAGS.search(self._facts.text_of(flags)):
            raise MayKeepState
        return NOTHING.in_surviving_object() if at_load else NOTHING

    def _reach_of_name(self, node: Node) -> Reachability:
        binding = self._facts.binding(node)
        if binding is None:
            if self._facts.text_of(node) not in known_builtins.PASSABLE_GLOBALS:
                raise MayKeepState
            return NOTHING
        assigned = self._facts.reach_of_names.get(binding, NOTHING)
        declaration = binding.declaration
        if binding.kind == "parameter":
            return assigned
        if declaration.type in FUNCTION_NODES:
            is_expression = not declaration.type.endswith("declaration")
            survives = is_expression or binding.function is None
            return join((assigned, self._reach_of_function(declaration, survives=survives)))
        if declaration.type in CLASS_NODES:
            return join((assigned, NOTHING.in_surviving_object()))
        return assigned

    def _reach_of_function(self, function: Node, *, survives: bool) -> Reachability:
        """Return the reachability of a function value.

        If the function may return a surviving object, the value reaches everything, because any caller may get that
        object.
        """
        if self._facts.reach_of_results.get(function.id, NOTHING).reaches_something:
            return ANYTHING
        return NOTHING.in_surviving_object() if survives else NOTHING

    def _reach_of_member(self, node: Node, at_load: bool) -> Reachability:
        if self._facts.property(node) in ("length", "size"):
            return NOTHING
        if self._facts.path(node).partition(".")[0] in known_builtins.CONSTANT_OBJECTS:
            return NOTHING
        return self.evaluate(node.child_by_field_name("object"), at_load).member()

    def _reach_of_members(self, node: Node, at_load: bool) -> Reachability:
        """Return the joined reachability of the members of an array or object literal."""
        members = []
        for child in node.named_children:
            if child.type == "pair":
                if child.child(0) is not None and child.children[0].type == "computed_property_name":
                    self._require_no_function(child.child_by_field_name("value"))
                members.append(self.evaluate(child.child_by_field_name("value"), at_load))
            elif child.type == "method_definition":
                members.append(self._reach_of_function(child, survives=at_load))
            else:
                members.append(self.evaluate(child, at_load))
        return join(members)

    def _require_no_function(self, value: Node | None) -> None:
        """Raise MayKeepState when the value under a computed name is a function.

        The analysis could mistake a call of such a function for the call of a built-in method.
        """
        if value is not None and value.type in FUNCTION_NODES:
            raise MayKeepState

    def _reach_of_new(self, node: Node, at_load: bool) -> Reachability:
        if self._may_get_from_callbacks(node):
            raise MayKeepState
        constructor, arguments = node.child_by_field_name("constructor"), self._reach_of_arguments(node, at_load)
        path = self._facts.path(constructor)
        if path in known_builtins.COLLECTIONS and not at_load:
            # One result covers all collections. `new Set(list)` and `new Map(list)` hold the members of the list, so
            # the nearest surviving object may be at the distance 1. `new Array(list)` holds the list itself, so the
            # depth is one more than the depth of the argument.
            copies_nothing_that_survives = path != "Array" and not arguments.member().reaches_something
            if copies_nothing_that_survives or not arguments.reaches_something:
                return NOTHING
            return Reachability(1, arguments.in_surviving_object().depth)
        # The entries of a WeakMap are not tracked, so a WeakMap with initial entries may hold state.
        if arguments.reaches_something and (not at_load or path == "WeakMap"):
            raise MayKeepState
        if path in known_builtins.BUILTIN_CLASSES:
            return arguments.in_surviving_object() if at_load else NOTHING
        if path == "RegExp" and not at_load:
            return NOTHING
        binding = None if constructor is None else self._facts.binding(constructor)
        if at_load or binding is None or binding.declaration.type not in CLASS_NODES:
            raise MayKeepState
        return NOTHING

    # ---- calls ----

    def _reach_of_call(self, node: Node, at_load: bool) -> Reachability:
        callee = node.child_by_field_name("function")
        while callee is not None and callee.type == "parenthesized_expression":
            callee = callee.named_children[-1]
        if callee is None or callee.type == "import":
            raise MayKeepState
        if callee.type == "super":
            return self._call_unknown(NOTHING, node, at_load)
        path = self._facts.path(callee)
        arguments = node.child_by_field_name("arguments")
        if arguments is not None and arguments.type == "template_string" and path != "String.raw":
            raise MayKeepState
        function = self._facts.function_of(callee)
        if function is not None:
            return self._call_function(function, node, at_load)
        if path:
            return self._call_global(path, node, at_load)
        if callee.type == "member_expression":
            return self._call_method(callee, node, at_load)
        if (
            callee.type == "subscript_expression"
            and self.evaluate(callee.child_by_field_name("object"), at_load).reaches_something
        ):
            raise MayKeepState
        return self._call_unknown(self.evaluate(callee, at_load), node, at_load)

    def _call_function(self, function: Node, node: Node, at_load: bool) -> Reachability:
        if at_load:
            raise MayKeepState
        arguments = self._facts.arguments(node)
        values = [self.evaluate(argument, at_load) for argument in arguments]
        patterns = parameters(function)
        if any(argument.type == "spread_element" for argument in arguments):
            values = [join(values)] * len(patterns)
        for number, parameter in enumerate(patterns):
            if parameter.type == "rest_pattern":
                self._facts.destructure(parameter, join(values[number:]))
            elif number < len(values):
                self._facts.destructure(parameter, values[number])
        return self._facts.reach_of_results.get(function.id, NOTHING)

    def _call_global(self, path: str, node: Node, at_load: bool) -> Reachability:
        arguments = self._reach_of_arguments(node, at_load)
        self._require_no_untracked_objects(path, node, at_load)
        results = self._pass_to_callbacks(path, node, arguments)
        if path in known_builtins.COPIES:
            return self._reach_of_copy(path, arguments, results, at_load)
        if path == "Object.assign":
            return self._copy_members(node, at_load)
        if path not in known_builtins.PURE_CALLS and path.partition(".")[0] not in known_builtins.PURE_OBJECTS:
            raise MayKeepState
        if not at_load:
            return NOTHING
        return ANYTHING if path == "structuredClone" else NOTHING.in_surviving_object()

    def _reach_of_copy(self, path: str, arguments: Reachability, results: Reachability, at_load: bool) -> Reachability:
        """Return the reachability of an object that a built-in function fills from its arguments.

        `results` is the reachability of the results of its callbacks.
        """
        copied = arguments.member() if path in known_builtins.COPY_MEMBERS else arguments
        if not at_load and not copied.reaches_something and not results.reaches_something:
            return NOTHING
        if path == "JSON.parse":
            return ANYTHING
        return Reachability(0, join((arguments, results)).in_surviving_object().depth)

    def _copy_members(self, node: Node, at_load: bool) -> Reachability:
        """Return the reachability of `Object.assign`.

        Into an existing object only values that reach nothing may be copied.
        """
        arguments = self._facts.arguments(node)
        target, sources = next(iter(arguments), None), arguments[1:]
        values = [self.evaluate(source, at_load) for source in sources]
        copied = join(
            [
                value if source.type == "spread_element" else value.member()
                for source, value in zip(sources, values, strict=True)
            ]
        )
        target_reach = self.evaluate(target, at_load)
        if target is not None and target.type == "object":
            return join((target_reach, copied.in_new_object()))
        if at_load or target_reach.survives or copied.reaches_something:
            raise MayKeepState
        return target_reach

    def _call_method(self, callee: Node, node: Node, at_load: bool) -> Reachability:
        name = self._facts.property(callee)
        owner = self.evaluate(callee.child_by_field_name("object"), at_load)
        arguments = self._reach_of_arguments(node, at_load)
        self._require_no_untracked_objects(name, node, at_load)
        if name in known_builtins.PURE_METHODS:
            results = self._pass_to_callbacks(name, node, join((owner, arguments)))
            result = self._result_of_pure_method(name, node, owner, join((arguments, results)), at_load)
            if name not in self._facts.own_methods:
                return result
            return join((result, self._call_own_method(owner, arguments, node, at_load)))
        if at_load and name in known_builtins.FILLING_METHODS:
            target = callee.child_by_field_name("object")
            if target is None:
                raise MayKeepState
            added = ANYTHING if self._may_get_from_callbacks(node) else arguments
            self._facts.add_to_object(target, join((added, added.member())).in_surviving_object())
            return ANYTHING
        if self._is_own_method(name):
            return self._call_own_method(owner, arguments, node, at_load)
        return self._call_mutating_method(name, owner, node, at_load)

    def _call_mutating_method(self, name: str, owner: Reachability, node: Node, at_load: bool) -> Reachability:
        """Return the reachability of the result of a built-in method that may change its object.

        The object must be a new one. The result is the object, a member of it, or a new object with such members.
        """
        if owner.survives:
            raise MayKeepState
        self._call_unknown(owner, node, at_load)
        if name in known_builtins.SORTING_METHODS:
            self._pass_to_callbacks(name, node, owner)
        elif owner.reaches_something and self._callbacks(node):
            raise MayKeepState
        return owner.member() if name in ("pop", "shift") else Reachability(0, owner.depth)

    def _call_own_method(self, owner: Reachability, arguments: Reachability, node: Node, at_load: bool) -> Reachability:
        """Return the reachability of the result of a method that the script defines.

        The method gets nothing that survives. If it may return such an object, its owner reaches everything.
        """
        if at_load or arguments.reaches_something or self._may_get_from_callbacks(node):
            raise MayKeepState
        return ANYTHING if owner.depth >= ANYTHING.depth else NOTHING

    def _require_no_untracked_objects(self, name: str, node: Node, at_load: bool) -> None:
        """Raise MayKeepState for a call at load time that may create closures or instances.

        The analysis does not track the state that such an object holds.
        """
        if not at_load or not self.creates_closures_or_instances:
            return
        passes_function = any(
            argument.type == "identifier" and self._facts.function_of(argument)
            for argument in self._facts.arguments(node)
        )
        if name in self._facts.own_methods or (passes_function and name not in known_builtins.SORTING_METHODS):
            raise MayKeepState

    def _is_own_method(self, name: str) -> bool:
        """Return whether the script defines a method of this name, and no mutating built-in has it."""
        is_built_in = name in known_builtins.MUTATING_METHODS or name.startswith("set")
        return name in self._facts.own_methods and not is_built_in

    def _result_of_pure_method(
        self, name: str, node: Node, owner: Reachability, arguments: Reachability, at_load: bool
    ) -> Reachability:
        """Return the reachability of the result of a method that changes nothing."""
        if at_load and name in known_builtins.ITERATOR_METHODS and not _is_consumed(node):
            raise MayKeepState
        if name in known_builtins.RETURN_PRIMITIVES:
            return NOTHING
        member = owner.member()
        if name in known_builtins.RETURN_MEMBERS:
            return member
        if at_load:
            # The result may hold members in arrays of its own, as the result of `entries()` does.
            return join((member, arguments)).in_surviving_object().in_surviving_object()
        return (
            join((owner, arguments)).in_surviving_object()
            if member.reaches_something or arguments.reaches_something
            else NOTHING
        )

    def _call_unknown(self, callee: Reachability, node: Node, at_load: bool) -> Reachability:
        """Return the reachability of a call of an unknown function.

        It may be any function of the script.
        """
        if at_load or self._reach_of_arguments(node, at_load).reaches_something or self._may_get_from_callbacks(node):
            raise MayKeepState
        return ANYTHING if callee.reaches_something else NOTHING

    def _callbacks(self, node: Node) -> list[Node]:
        """Return the functions of the script among the arguments of a call."""
        functions = map(self._facts.function_of, self._facts.arguments(node))
        return [function for function in functions if function is not None]

    def _may_get_from_callbacks(self, node: Node) -> bool:
        """Return whether the called function may get a surviving object from a callback."""
        results = (self._facts.reach_of_results.get(function.id, NOTHING) for function in self._callbacks(node))
        return any(result.reaches_something for result in results)

    def _pass_to_callbacks(self, name: str, node: Node, value: Reachability) -> Reachability:
        """Pass the operand of a built-in function to its callbacks.

        Returns the reachability of their results.
        """
        results = []
        callback_position = known_builtins.CALLBACK_ARGUMENT.get(name)
        for position, argument in enumerate(self._facts.arguments(node)):
            function = self._facts.function_of(argument)
            if function is not None:
                result = self._facts.reach_of_results.get(function.id, NOTHING)
                results.append(result)
                passed = join((value, result)).in_surviving_object() if value.reaches_something else result
                for parameter in parameters(function):
                    self._facts.destructure(parameter, passed)
            elif value.reaches_something and self._may_be_callback(argument, position, callback_position):
                raise MayKeepState
        return join(results)

    def _may_be_callback(self, argument: Node, position: int, callback_position: int | None) -> bool:
        """Return whether an argument may be the callback of a built-in function."""
        if callback_position is None or position > callback_position:
            return False
        if argument.type == "spread_element":
            return True
        return position == callback_position and not self._is_no_function(argument)

    def _is_no_function(self, argument: Node) -> bool:
        """Return whether an argument is certainly not a function of the script."""
        if argument.type == "identifier" and self._facts.binding(argument) is None:
            return True
        return argument.type in NODES_THAT_REACH_NOTHING or argument.type in ("array", "object", "regex")

    def _reach_of_arguments(self, node: Node, at_load: bool) -> Reachability:
        """Return the join of the reachability of a call's arguments.

        Functions of the script are left out, because their results are tracked separately.
        """
        arguments = self._facts.arguments(node)
        return join(
            [self.evaluate(argument, at_load) for argument in arguments if self._facts.function_of(argument) is None]
        )


def _is_pattern_or_member(node: Node) -> bool:
    return node.type in ("object_pattern", "array_pattern") or node.type in MEMBER_NODES


def _is_consumed(node: Node) -> bool:
    """Return whether an iterator is read to its end by the expression that creates it."""
    parent = node.parent
    if parent is None:
        return False
    if parent.type in ("spread_element", "for_in_statement"):
        return True
    call = parent.parent if parent.type == "arguments" else None
    if call is None or call.type not in ("call_expression", "new_expression"):
        return False
    called = call.child_by_field_name("function") or call.child_by_field_name("constructor")
    return called is not None and text_of(called) in known_builtins.ITERATOR_CONSUMERS
