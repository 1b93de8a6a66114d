"""Whether a script may keep something from one record to the next.

The question is asked of scripts that call `flow.contains`: one that keeps nothing may be called twice with assumed
answers, one that keeps something must be told the truth. The analysis is conservative: it says "keeps" unless it sees
that nothing can live on. It knows what may be done with a value that reaches an object of the top level (read it, test
it, return it, hold it in a new object, give it to a function of the script); whatever else a script does with one is
"keeps". What names hold and functions return is found by going over the script until nothing changes.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from tree_sitter import Node

from headwater.sandbox.analysis import builtins
from headwater.sandbox.analysis.reach import ANYTHING, NOTHING, Reach, join
from headwater.sandbox.analysis.scopes import FUNCTIONS, Binding, Scopes, resolve
from headwater.sandbox.analysis.tree import Script

_MAX_ROUNDS, _MAX_VISITS = 20, 200_000
_MAX_DEPTH: Final = 500
"""Of nodes: what is nested more deeply is taken to keep something."""
_MAY_ASK: Final = re.compile(rb"flow|\\u|globalThis|\bthis\b(?!\s*\.)")
"""Ways to `flow`: its name, perhaps with an escape, and the global object."""
_MAX_PATH: Final = 3
_LOGICAL: Final = frozenset({"||", "&&", "??"})
_LOGICAL_ASSIGNMENT: Final = frozenset({"||=", "&&=", "??="})
_ACCESSORS: Final = frozenset({"get", "set"})
_CLASSES: Final = frozenset({"class", "class_declaration"})
_MEMBERS: Final = frozenset({"member_expression", "subscript_expression"})
_PRIMITIVES: Final = frozenset(
    {"number", "string", "template_string", "true", "false", "null", "undefined", "unary_expression"}
    | {"update_expression", "this", "super", "computed_property_name", "comment"}
)
_STATEFUL_FLAGS: Final = re.compile("[gy]")


class _Keeps(Exception):
    """The script may keep something."""


def keeps_state(script: Script) -> bool:
    """Whether something that `process` changes may be seen by a later call. False for scripts that can't ask anything."""
    if not _MAY_ASK.search(script.source):
        return False
    if script.has_errors:
        return True
    try:
        _Analysis(script).run()
    except (_Keeps, RecursionError):
        return True
    return False


class _Analysis:
    """held: what names may reach, and returned: what functions may return, as far as it is known yet."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._scopes: Scopes = resolve(script)
        self._held: dict[Binding, Reach] = {}
        self._returned: dict[int, Reach] = {}
        self._memo: dict[int, Reach] = {}
        self._is_changed = False
        self._own_methods = self._names_of_methods()
        self._at_load: set[int] = set()
        self._visits: list[tuple[Callable[[Node, bool], None], Node, bool]] = []
        self._functions: dict[Binding, Node] = {}
        self._around: dict[int, Node | None] = {}

    def run(self) -> None:
        """Raises _Keeps."""
        if self._scopes.depth > _MAX_DEPTH:
            raise _Keeps
        self._check_names()
        self._find_functions()
        self._plan()
        for _ in range(min(_MAX_ROUNDS, 3 + _MAX_VISITS // (len(self._visits) + 1))):
            self._is_changed = False
            self._memo.clear()
            for visit, node, is_load in self._visits:
                visit(node, is_load)
            if not self._is_changed:
                return
        raise _Keeps

    # ---- names and functions ----

    def _check_names(self) -> None:
        free = {self._script.text_of(node) for node in self._scopes.free}
        if free & builtins.FORBIDDEN_GLOBALS:
            raise _Keeps
        if any(binding.name == "arguments" for binding in self._scopes.bindings.values()):
            raise _Keeps

    def _names_of_methods(self) -> frozenset[str]:
        """The names under which the script itself may put functions into objects."""
        names: set[str] = set()
        for node, _ in self._scopes.nodes:
            kind = node.type
            if kind == "method_definition":
                names.add(self._field_text(node, "name"))
            elif kind in ("pair", "field_definition"):
                value = node.child_by_field_name("value")
                if value is not None and value.type not in _PRIMITIVES:
                    names.add(self._field_text(node, "key" if kind == "pair" else "property"))
            elif kind == "assignment_expression":
                left = node.child_by_field_name("left")
                if left is not None and left.type == "member_expression":
                    names.add(self._field_text(left, "property"))
        return frozenset(names)

    def _find_functions(self) -> None:
        """The functions that names always mean."""
        for binding in {*self._scopes.bindings.values()}:
            declaration, function = binding.declaration, None
            if declaration.type in FUNCTIONS and binding.kind != "parameter":
                function = declaration
            elif declaration.type == "variable_declarator":
                name, value = declaration.child_by_field_name("name"), declaration.child_by_field_name("value")
                if value is not None and value.type in FUNCTIONS and name is not None and name.type == "identifier":
                    function = value
            if function is not None and binding.is_unique:
                self._functions[binding] = function
        for node, _ in self._scopes.nodes:
            if node.type in ("assignment_expression", "augmented_assignment_expression", "for_in_statement"):
                left = node.child_by_field_name("left")
                for place in [] if left is None else _targets(left):
                    self._functions.pop(self._binding(place) or _NOBODY, None)

    def _plan(self) -> None:
        """Finds what to visit, and which functions run at once where they stand, while the script is loaded."""
        visitors = self._visitors()
        for node, function in self._scopes.nodes:
            kind = node.type
            is_load = function is None or function.id in self._at_load
            if kind in FUNCTIONS:
                self._around[node.id] = function
                if function is None and self._runs_at_once(node):
                    self._at_load.add(node.id)
                elif function is not None and is_load:
                    raise _Keeps
            elif kind in ("return_statement", "this"):
                self._around[node.id] = function
            visit = visitors.get(kind)
            if visit is not None:
                self._visits.append((visit, node, is_load))

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
            "class_static_block": self._refuse,
            "with_statement": self._refuse,
            "import": self._refuse,
            "export_statement": self._refuse,
            "meta_property": self._refuse,
        }

    def _runs_at_once(self, function: Node) -> bool:
        """Whether a method that does not keep functions gets a function where it stands: `LIST.map((x) => …)`."""
        arguments = function.parent
        call = None if arguments is None or arguments.type != "arguments" else arguments.parent
        if call is None or call.type != "call_expression":
            return False
        callee = call.child_by_field_name("function")
        return callee is not None and callee.type == "member_expression" and self._is_read(self._property(callee))

    # ---- what code does; is_load: it runs when the script is loaded, and never for a record ----

    def _refuse(self, _node: Node, _is_load: bool) -> None:
        raise _Keeps

    def _evaluate(self, node: Node, is_load: bool) -> None:
        self._value(node, is_load)

    def _define(self, node: Node, is_load: bool) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and value is not None:
            self._spread(name, self._value(value, is_load))

    def _default(self, node: Node, is_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is not None and right is not None:
            self._spread(left, self._value(right, is_load))

    def _assign(self, node: Node, is_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            raise _Keeps
        operator = node.child_by_field_name("operator")
        keeps_value = operator is None or operator.type in _LOGICAL_ASSIGNMENT
        self._write(left, self._value(right, is_load) if keeps_value else NOTHING, is_load)

    def _update(self, node: Node, is_load: bool) -> None:
        self._write(node.child_by_field_name("argument"), NOTHING, is_load)

    def _delete(self, node: Node, is_load: bool) -> None:
        if node.children[0].type == "delete":
            self._update(node, is_load)

    def _iterate(self, node: Node, is_load: bool) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None:
            raise _Keeps
        value = self._value(right, is_load).part()
        if operator is not None and operator.type == "in":
            value = NOTHING
        if node.child_by_field_name("kind") is None:
            self._write(left, value, is_load)
        else:
            self._spread(left, value)

    def _catch(self, node: Node, is_load: bool) -> None:
        parameter = node.child_by_field_name("parameter")
        if parameter is not None and is_load:
            self._spread(parameter, ANYTHING)

    def _return(self, node: Node, is_load: bool) -> None:
        function = self._around[node.id]
        if function is not None and node.named_children:
            self._give_back(function, self._value(node.named_children[0], is_load))

    def _return_body(self, function: Node, _is_load: bool) -> None:
        body = function.child_by_field_name("body")
        if body is not None and body.type != "statement_block":
            self._give_back(function, self._value(body, function.id in self._at_load))

    def _give_away(self, node: Node, is_load: bool) -> None:
        if not is_load and any(self._value(child, is_load).deep for child in node.named_children):
            raise _Keeps

    def _field(self, node: Node, _is_load: bool) -> None:
        """A static member lives on like the class; one of an instance is as old as the instance."""
        value = node.child_by_field_name("value")
        if value is not None and self._value(value, is_load=node.children[0].type == "static").deep:
            raise _Keeps

    def _method_definition(self, node: Node, _is_load: bool) -> None:
        """What methods return is not followed where they are called."""
        is_in_class = node.parent is not None and node.parent.type == "class_body"
        is_accessor = any(child.type in _ACCESSORS for child in node.children)
        if (is_in_class or is_accessor) and self._returned.get(node.id, NOTHING).deep:
            raise _Keeps

    def _heritage(self, node: Node, _is_load: bool) -> None:
        base = node.named_children[0]
        binding = self._binding(base)
        is_class = binding is not None and binding.declaration.type == "class_declaration"
        if not is_class and self._path(base) not in builtins.CLASSES:
            raise _Keeps

    def _member(self, node: Node, is_load: bool) -> None:
        name = _member_name(node, self._script)
        if name in builtins.FORBIDDEN_MEMBERS:
            is_buffer = name == "buffer"
            if not is_buffer or self._value(node.child_by_field_name("object"), is_load).deep:
                raise _Keeps

    def _this(self, node: Node, _is_load: bool) -> None:
        """`this` is a new object in the methods and fields of a class that are not static, elsewhere it may be any."""
        owner = self._around[node.id]
        while owner is not None and owner.type == "arrow_function":
            owner = self._around[owner.id]
        if owner is None or owner.type == "class_static_block" or owner.children[0].type == "static":
            raise _Keeps
        if owner.parent is None or owner.parent.type != "class_body":
            raise _Keeps

    # ---- writing ----

    def _write(self, target: Node | None, value: Reach, is_load: bool) -> None:
        if target is None:
            raise _Keeps
        for place in _targets(target):
            if place.type in _MEMBERS:
                self._write_member(place, value, is_load)
            elif is_load:
                self._hold(self._binding(place), value if target is place else ANYTHING)
            else:
                binding = self._binding(place)
                if binding is None or binding.function is None:
                    raise _Keeps
        if not is_load:
            self._spread(target, value)

    def _write_member(self, place: Node, value: Reach, is_load: bool) -> None:
        """In a record only to what this call made, and nothing that lives on; a table is filled while loading."""
        if is_load:
            return self._fill(place, value)
        if value.deep or self._value(place.child_by_field_name("object"), is_load).is_kept:
            raise _Keeps

    def _fill(self, place: Node, value: Reach) -> None:
        """Put a value into a table of the top level."""
        while place.type in _MEMBERS:
            value, inner = value.kept(), place.child_by_field_name("object")
            if inner is None:
                raise _Keeps
            place = inner
        binding = self._binding(place)
        if binding is None or place.type != "identifier":
            raise _Keeps
        self._hold(binding, value)

    def _hold(self, binding: Binding | None, value: Reach) -> None:
        if binding is None:
            raise _Keeps
        before = self._held.get(binding, NOTHING)
        after = join((before, value))
        if after != before:
            self._held[binding] = after
            self._is_changed = True

    def _give_back(self, function: Node, value: Reach) -> None:
        before = self._returned.get(function.id, NOTHING)
        after = join((before, value))
        if after != before:
            self._returned[function.id] = after
            self._is_changed = True

    def _spread(self, pattern: Node, value: Reach) -> None:
        """Give the names of a pattern what they take from a value."""
        todo = [(pattern, value)] if value.deep else []
        while todo:
            node, given = todo.pop()
            match node.type:
                case "identifier" | "shorthand_property_identifier_pattern":
                    self._hold(self._binding(node), given)
                case "assignment_pattern" | "object_assignment_pattern":
                    todo += [(child, given) for child in node.children_by_field_name("left")]
                case "pair_pattern":
                    todo += [(child, given) for child in node.children_by_field_name("value")]
                case "rest_pattern":
                    todo += [(child, given.held() if given.near else given.kept()) for child in node.named_children]
                case "object_pattern" | "array_pattern":
                    todo += [(child, given.part()) for child in node.named_children]
                case kind if kind in _MEMBERS and given.deep:
                    raise _Keeps

    # ---- values ----

    def _value(self, node: Node | None, is_load: bool) -> Reach:
        """What an expression may reach. Raises _Keeps where it can't be followed."""
        if node is None or node.type in _PRIMITIVES:
            return NOTHING
        found = self._memo.get(node.id)
        if found is None:
            found = self._memo[node.id] = self._value_of(node, node.type, is_load)
        return found

    def _value_of(self, node: Node, kind: str, is_load: bool) -> Reach:
        if kind in ("identifier", "shorthand_property_identifier"):
            return self._value_of_name(node)
        if kind in _MEMBERS:
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
                return self._value(node.named_children[-1], is_load)
            case "ternary_expression":
                branches = (node.child_by_field_name(name) for name in ("consequence", "alternative"))
                return join([self._value(branch, is_load) for branch in branches])
            case "binary_expression":
                operator = node.child_by_field_name("operator")
                if operator is None or operator.type not in _LOGICAL:
                    return NOTHING
                sides = (node.child_by_field_name(name) for name in ("left", "right"))
                return join([self._value(side, is_load) for side in sides])
            case "assignment_expression" | "augmented_assignment_expression":
                sides = (node.child_by_field_name(name) for name in ("left", "right"))
                return join(
                    [self._value(side, is_load) for side in sides if side is not None and not _is_pattern(side)]
                )
            case "regex":
                return self._value_of_regex(node, is_load)
            case "class":
                return NOTHING.kept()
            case "spread_element":
                return self._value(node.named_children[0], is_load).part()
        raise _Keeps

    def _value_of_regex(self, node: Node, is_load: bool) -> Reach:
        flags = node.child_by_field_name("flags")
        if is_load and flags is not None and _STATEFUL_FLAGS.search(self._script.text_of(flags)):
            raise _Keeps
        return NOTHING.kept() if is_load else NOTHING

    def _value_of_name(self, node: Node) -> Reach:
        binding = self._binding(node)
        if binding is None:
            if self._script.text_of(node) not in builtins.VALUES:
                raise _Keeps
            return NOTHING
        held = self._held.get(binding, NOTHING)
        declaration = binding.declaration
        if binding.kind == "parameter":
            return held
        if declaration.type in FUNCTIONS:
            is_expression = not declaration.type.endswith("declaration")
            lives_on = is_expression or binding.function is None
            return join((held, self._value_of_function(declaration, lives_on=lives_on)))
        if declaration.type in _CLASSES:
            return join((held, NOTHING.kept()))
        return held

    def _value_of_function(self, function: Node, *, lives_on: bool) -> Reach:
        """A function that returns what lives on is as good as that, wherever it gets."""
        if self._returned.get(function.id, NOTHING).deep:
            return ANYTHING
        return NOTHING.kept() if lives_on else NOTHING

    def _value_of_member(self, node: Node, is_load: bool) -> Reach:
        if self._property(node) in ("length", "size"):
            return NOTHING
        if self._path(node).partition(".")[0] in builtins.CONSTANT_OBJECTS:
            return NOTHING
        return self._value(node.child_by_field_name("object"), is_load).part()

    def _held_by(self, node: Node, is_load: bool) -> Reach:
        """The members of a literal, whichever."""
        held = []
        for child in node.named_children:
            if child.type == "pair":
                if child.child(0) is not None and child.children[0].type == "computed_property_name":
                    self._require_no_function(child.child_by_field_name("value"))
                held.append(self._value(child.child_by_field_name("value"), is_load))
            elif child.type == "method_definition":
                held.append(self._value_of_function(child, lives_on=is_load))
            else:
                held.append(self._value(child, is_load))
        return join(held)

    def _require_no_function(self, value: Node | None) -> None:
        """A method under a name that is not written may be taken for one of a built-in object."""
        if value is not None and value.type in FUNCTIONS:
            raise _Keeps

    def _value_of_new(self, node: Node, is_load: bool) -> Reach:
        constructor, given = node.child_by_field_name("constructor"), self._given(node, is_load)
        path = self._path(constructor)
        if path in builtins.COLLECTIONS and not is_load:
            is_copy = path != "Array" and not given.part().deep
            return NOTHING if is_copy or not given.deep else Reach(1, given.kept().deep)
        if given.deep and (not is_load or path == "WeakMap"):
            raise _Keeps
        if path in builtins.CLASSES:
            return given.kept() if is_load else NOTHING
        if path == "RegExp" and not is_load:
            return NOTHING
        binding = None if constructor is None else self._binding(constructor)
        if is_load or binding is None or binding.declaration.type not in _CLASSES:
            raise _Keeps
        return NOTHING

    # ---- calls ----

    def _value_of_call(self, node: Node, is_load: bool) -> Reach:
        callee = node.child_by_field_name("function")
        if callee is None or callee.type == "import":
            raise _Keeps
        if callee.type == "super":
            return self._call_unknown(NOTHING, node, is_load)
        path = self._path(callee)
        arguments = node.child_by_field_name("arguments")
        if arguments is not None and arguments.type == "template_string" and path != "String.raw":
            raise _Keeps
        function = self._callee(callee)
        if function is not None:
            return self._call_function(function, node, is_load)
        if path:
            return self._call_global(path, node, is_load)
        if callee.type == "member_expression":
            return self._call_method(callee, node, is_load)
        if callee.type == "subscript_expression" and self._value(callee.child_by_field_name("object"), is_load).deep:
            raise _Keeps
        return self._call_unknown(self._value(callee, is_load), node, is_load)

    def _call_function(self, function: Node, node: Node, is_load: bool) -> Reach:
        if is_load:
            raise _Keeps
        arguments = self._arguments(node)
        values = [self._value(each, is_load) for each in arguments]
        parameters = _parameters(function)
        if any(each.type == "spread_element" for each in arguments):
            values = [join(values)] * len(parameters)
        for number, parameter in enumerate(parameters):
            if parameter.type == "rest_pattern":
                self._spread(parameter, join(values[number:]))
            elif number < len(values):
                self._spread(parameter, values[number])
        return self._returned.get(function.id, NOTHING)

    def _call_global(self, path: str, node: Node, is_load: bool) -> Reach:
        given = self._given(node, is_load)
        results = self._call_back(path, node, given)
        if path in builtins.COPIES:
            copies = join((given, results))
            copies = ANYTHING if path == "JSON.parse" else Reach(0, copies.kept().deep)
            held = given.part() if path in builtins.COPY_MEMBERS else given
            is_fresh = not held.deep and not results.deep
            return NOTHING if is_fresh and not is_load else copies
        if path == "Object.assign":
            return self._copy_members(node, is_load)
        if path not in builtins.PURE_CALLS and path.partition(".")[0] not in builtins.PURE_OBJECTS:
            raise _Keeps
        return ANYTHING if is_load and path == "structuredClone" else NOTHING.kept() if is_load else NOTHING

    def _copy_members(self, node: Node, is_load: bool) -> Reach:
        """`Object.assign({}, …)`; into another object only what reaches nothing."""
        target, *sources = self._arguments(node) or [node]
        values = [self._value(source, is_load) for source in sources]
        parts = join(
            [
                value if source.type == "spread_element" else value.part()
                for source, value in zip(sources, values, strict=True)
            ]
        )
        into = self._value(target, is_load)
        if target.type == "object":
            return join((into, parts.held()))
        if is_load or into.is_kept or parts.deep:
            raise _Keeps
        return into

    def _call_method(self, callee: Node, node: Node, is_load: bool) -> Reach:
        name = self._property(callee)
        owner, given = self._value(callee.child_by_field_name("object"), is_load), self._given(node, is_load)
        if self._is_read(name):
            results = self._call_back(name, node, join((owner, given)))
            return self._read(name, node, owner, join((given, results)), is_load)
        if is_load and name in builtins.FILL:
            place = callee.child_by_field_name("object")
            if place is None:
                raise _Keeps
            self._fill(place, join((given, given.part())).kept())
            return ANYTHING
        if is_load or given.deep or (owner.is_kept and (name not in self._own_methods or name in builtins.FILL)):
            raise _Keeps
        return ANYTHING if owner.deep >= ANYTHING.deep else NOTHING

    def _read(self, name: str, node: Node, owner: Reach, given: Reach, is_load: bool) -> Reach:
        """What a method that changes nothing may return."""
        if is_load and name in builtins.ITERATORS and not _is_consumed(node):
            raise _Keeps
        if name in builtins.GIVE_PRIMITIVES:
            return NOTHING
        part = owner.part()
        if name in builtins.GIVE_MEMBERS:
            return part
        if is_load:
            return join((part, given)).kept().kept()
        return join((owner, given)).kept() if part.deep or given.deep else NOTHING

    def _call_unknown(self, callee: Reach, node: Node, is_load: bool) -> Reach:
        """A call of a function that is not known: it may be any of the script's own."""
        if is_load or self._given(node, is_load).deep:
            raise _Keeps
        return ANYTHING if callee.deep else NOTHING

    def _call_back(self, name: str, node: Node, value: Reach) -> Reach:
        """Functions that a built-in one calls get what it works on. Returns what they return."""
        returned = []
        for number, given in enumerate(self._arguments(node)):
            function = self._callee(given)
            if function is not None:
                returned.append(self._returned.get(function.id, NOTHING))
                for parameter in _parameters(function):
                    self._spread(parameter, join((value, returned[-1])).kept() if value.deep else returned[-1])
            elif value.deep and number == builtins.CALL_BACK.get(name) and not self._is_no_function(given):
                raise _Keeps
        return join(returned)

    def _is_no_function(self, given: Node) -> bool:
        """Whether an argument is no function of the script that is not known."""
        if given.type == "identifier" and self._binding(given) is None:
            return True
        return given.type in _PRIMITIVES or given.type in ("array", "object", "regex")

    def _given(self, node: Node, is_load: bool) -> Reach:
        """What the arguments of a call may reach, functions of the script aside that return nothing that lives on."""
        values = []
        for each in self._arguments(node):
            function = self._callee(each)
            if function is None:
                values.append(self._value(each, is_load))
        return join(values)

    def _arguments(self, node: Node) -> list[Node]:
        arguments = node.child_by_field_name("arguments")
        return [] if arguments is None else [each for each in arguments.named_children if each.type != "comment"]

    def _callee(self, node: Node) -> Node | None:
        """The function of the script that an expression means, if it is clear."""
        while node.type == "parenthesized_expression" and node.named_children:
            node = node.named_children[-1]
        if node.type in FUNCTIONS:
            return node
        binding = self._binding(node) if node.type == "identifier" else None
        return None if binding is None else self._functions.get(binding)

    # ---- helpers ----

    def _is_read(self, name: str) -> bool:
        return name in builtins.READS and name not in self._own_methods

    def _binding(self, node: Node) -> Binding | None:
        return self._scopes.bindings.get(node.id)

    def _path(self, node: Node | None) -> str:
        """The dotted path of a global, empty when it is none."""
        root = node
        for _ in range(_MAX_PATH):
            if root is not None and root.type == "member_expression":
                root = root.child_by_field_name("object")
        if node is None or root is None or root.type != "identifier" or self._binding(root) is not None:
            return ""
        return "".join(self._script.text_of(node).split()).replace("?.", ".")

    def _property(self, node: Node) -> str:
        return self._field_text(node, "property") if node.type == "member_expression" else ""

    def _field_text(self, node: Node, field: str) -> str:
        found = node.child_by_field_name(field)
        return "" if found is None else self._script.text_of(found).strip("\"'")


def _member_name(node: Node, script: Script) -> str:
    """The name of a member as far as it is written."""
    if node.type == "member_expression":
        name = node.child_by_field_name("property")
    else:
        name = node.child_by_field_name("index")
        if name is not None and name.type != "string":
            return ""
    return "" if name is None else script.text_of(name).strip("\"'")


def _is_pattern(node: Node) -> bool:
    return node.type in ("object_pattern", "array_pattern") or node.type in _MEMBERS


def _is_consumed(node: Node) -> bool:
    """Whether an iterator is read to its end where it is made."""
    parent = node.parent
    if parent is None:
        return False
    if parent.type in ("spread_element", "for_in_statement"):
        return True
    call = parent.parent if parent.type == "arguments" else None
    return call is not None and call.type in ("call_expression", "new_expression")


def _parameters(function: Node) -> list[Node]:
    single = function.child_by_field_name("parameter")
    if single is not None:
        return [single]
    parameters = function.child_by_field_name("parameters")
    return [] if parameters is None else [each for each in parameters.named_children if each.type != "comment"]


def _targets(node: Node) -> Iterator[Node]:
    """What an assignment writes to: names and members."""
    todo = [node]
    while todo:
        found = todo.pop()
        match found.type:
            case "parenthesized_expression" | "object_pattern" | "array_pattern" | "rest_pattern":
                todo += found.named_children
            case "assignment_pattern" | "object_assignment_pattern":
                todo += found.children_by_field_name("left")
            case "pair_pattern":
                todo += found.children_by_field_name("value")
            case "comment":
                pass
            case _:
                yield found


_NOBODY: Final = Binding("", "", None, None)  # type: ignore[arg-type]
