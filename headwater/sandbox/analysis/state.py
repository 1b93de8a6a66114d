"""Whether a script may keep something from one record to the next.

The question is asked of scripts that call `flow.contains`: one that keeps nothing may be called twice with assumed
answers, one that keeps something must be told the truth. The analysis is conservative: it says "keeps" unless it sees
that nothing can live on.

It follows values that outlive a call: what top-level names hold, to a depth. Depth 0 is a value without parts that can be
changed (or one made anew by each call), depth 1 an object or array of such values, and so on up to UNKNOWN. The depth of
a name is the most that any of its definitions gives, found by repeating the walk until nothing changes.
"""

from collections.abc import Iterator
from typing import Final

from tree_sitter import Node

from headwater.sandbox.analysis.scopes import FUNCTIONS, Binding, Scopes, function_around, names_in, resolve
from headwater.sandbox.analysis.tree import Script, walk

UNKNOWN: Final = 8
_ROUNDS: Final = 50

_READS: Final = frozenset(
    "has includes indexOf lastIndexOf some every join toString startsWith endsWith test exec match matchAll search split "
    "replace replaceAll toLowerCase toUpperCase trim slice charAt charCodeAt codePointAt localeCompare hasOwnProperty "
    "keys values entries get at find findLast findIndex findLastIndex filter map flatMap flat concat reduce reduceRight "
    "forEach toSorted toReversed toSpliced with format formatToParts resolvedOptions toFixed toLocaleString union "
    "intersection difference symmetricDifference isSubsetOf isSupersetOf isDisjointFrom encode toJSON valueOf "
    "getTime toISOString call apply".split()
)
"""Methods of built-in objects that change nothing of what they are called on."""
_GIVE_PRIMITIVES: Final = frozenset(
    "has includes indexOf lastIndexOf some every join toString startsWith endsWith test search toLowerCase toUpperCase "
    "trim charAt charCodeAt codePointAt localeCompare hasOwnProperty findIndex findLastIndex toFixed toLocaleString "
    "format getTime toISOString isSubsetOf isSupersetOf isDisjointFrom".split()
)
_GIVE_ELEMENTS: Final = frozenset({"get", "at", "find", "findLast"})
_ITERATORS: Final = frozenset({"keys", "values", "entries", "matchAll"})
_PURE_CALLS: Final = frozenset(
    "Object.keys Object.values Object.entries Object.fromEntries Object.freeze Object.hasOwn Object.groupBy Array.from "
    "Array.isArray Array.of JSON.stringify JSON.parse String Number BigInt Boolean Symbol Array Object RegExp Error "
    "TypeError RangeError parseInt parseFloat isNaN isFinite structuredClone atob btoa encodeURIComponent "
    "decodeURIComponent encodeURI decodeURI escape unescape String.fromCharCode String.raw Number.isInteger "
    "Number.isSafeInteger Number.isFinite Number.isNaN Number.parseInt Number.parseFloat BigInt.asUintN BigInt.asIntN "
    "Date.parse Date.UTC Date.now flow.contains Map.groupBy".split()
)
_PURE_OBJECTS: Final = frozenset({"Math", "console"})
_SAFE_CLASSES: Final = frozenset(
    "Set Map Array Object WeakMap WeakSet RegExp Error TypeError RangeError TextEncoder URL Date Uint8Array Uint16Array "
    "Uint32Array Int8Array Int16Array Int32Array Float32Array Float64Array BigInt64Array BigUint64Array "
    "Uint8ClampedArray ArrayBuffer DataView Intl.NumberFormat Intl.DateTimeFormat Intl.Collator Intl.PluralRules "
    "Intl.ListFormat Intl.RelativeTimeFormat Intl.DisplayNames".split()
)
_LITERALS: Final = frozenset(
    "number string template_string true false null undefined unary_expression update_expression meta_property this "
    "super import class".split()
)
_CALLABLES: Final = FUNCTIONS | {"class_declaration"}
_LOGICAL: Final = frozenset({"&&", "||", "??", "&&=", "||=", "??="})
_STATEFUL_FLAGS: Final = frozenset("gy")
_GLOBAL_OBJECTS: Final = frozenset({"globalThis", "eval", "Function"})


class _Keeps(Exception):
    """The script may keep something."""


def keeps_state(script: Script) -> bool:
    """Whether something that `process` changes may be seen by a later call. False for scripts without `flow`.

    A script that is nested more deeply than Python's stack is taken to keep something.
    """
    if b"flow" not in script.source:
        return False
    if script.has_errors:
        return True
    try:
        _Analysis(script).run()
    except (_Keeps, RecursionError):
        return True
    return False


class _Analysis:
    """depths: of bindings and of what functions return, by the binding and by the function node's id."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._scopes: Scopes = resolve(script)
        self._depths: dict[Binding, int] = {}
        self._returns: dict[int, int] = {}
        self._functions = self._named_functions()
        self._changed = False
        self._nodes = list(walk(script.root))

    def run(self) -> None:
        """Raises _Keeps."""
        self._check_names()
        for _ in range(_ROUNDS):
            self._changed = False
            for node in self._nodes:
                self._visit(node)
            if not self._changed:
                return
        raise _Keeps

    # ---- names ----

    def _named_functions(self) -> dict[Binding, Node]:
        """The function that a name always means."""
        found: dict[Binding, Node] = {}
        for binding in {*self._scopes.bindings.values()}:
            declaration = binding.declaration
            if declaration.type in FUNCTIONS and binding.kind != "parameter":
                found[binding] = declaration
            elif declaration.type == "variable_declarator":
                name, value = declaration.child_by_field_name("name"), declaration.child_by_field_name("value")
                if value is not None and value.type in FUNCTIONS and name is not None and name.type == "identifier":
                    found[binding] = value
        return found

    def _check_names(self) -> None:
        for node in self._scopes.free:
            if self._script.text_of(node) in _GLOBAL_OBJECTS:
                raise _Keeps
        for binding in {*self._scopes.bindings.values()}:
            if binding.name == "arguments":
                raise _Keeps

    def _is_outer(self, binding: Binding | None) -> bool:
        """Whether a name is declared outside of all functions, or nowhere."""
        return binding is None or binding.function is None

    def _in_record(self, node: Node) -> bool:
        """Whether code runs when a record is processed, and not only when the script is loaded."""
        function = function_around(node)
        while function is not None:
            if not _runs_at_once(function):
                return True
            function = function_around(function)
        return False

    # ---- statements ----

    def _visit(self, node: Node) -> None:
        match node.type:
            case "variable_declarator":
                self._define_variable(node)
            case "assignment_expression" | "augmented_assignment_expression":
                self._assign(node)
            case "update_expression":
                self._change(node.child_by_field_name("argument"))
            case "unary_expression" if node.children[0].type == "delete":
                self._change(node.child_by_field_name("argument"))
            case "for_in_statement":
                self._iterate(node)
            case "call_expression" | "new_expression":
                self._depth(node)
            case "return_statement":
                self._return(node)
            case "arrow_function":
                self._return_expression(node)
            case "yield_expression" | "throw_statement":
                self._require_fresh(node)
            case "assignment_pattern" | "object_assignment_pattern":
                self._default(node)
            case "field_definition":
                self._require_fresh_field(node)
            case "this":
                self._check_this(node)
            case "with_statement":
                raise _Keeps

    def _define_variable(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or value is None:
            return
        if not self._in_record(node):
            self._check_initial(value)
        self._spread(name, self._depth(value))

    def _assign(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            raise _Keeps
        depth = self._depth(right) if node.type == "assignment_expression" or _is_logical(node) else 0
        if not self._in_record(node):
            self._check_initial(right)
            self._spread(left, UNKNOWN)
            if root := _root(left):
                self._deepen(self._binding(root), UNKNOWN)
            return
        self._change(left)
        if left.type in ("member_expression", "subscript_expression"):
            if depth:
                raise _Keeps
        else:
            self._spread(left, depth)

    def _change(self, target: Node | None) -> None:
        """A name or member is written to: it must belong to this call."""
        if target is None:
            raise _Keeps
        if not self._in_record(target):
            return
        for place in _targets(target):
            root = _root(place)
            if root is None:
                if self._depth(_object(place)) or _base(place).type == "super":
                    raise _Keeps
                continue
            if root.type == "this":
                continue
            binding = self._binding(root)
            if self._is_outer(binding) or (place is not root and self._depths.get(binding or _NOBODY, 0)):
                raise _Keeps

    def _iterate(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None:
            raise _Keeps
        if node.child_by_field_name("kind") is None:
            self._change(left)
        keys_only = operator is not None and operator.type == "in"
        self._spread(left, 0 if keys_only else max(0, self._depth(right) - 1))

    def _return(self, node: Node) -> None:
        function = function_around(node)
        if function is not None and node.named_child_count:
            self._give_back(function, self._depth(node.named_children[0]))

    def _return_expression(self, function: Node) -> None:
        body = function.child_by_field_name("body")
        if body is not None and body.type != "statement_block":
            self._give_back(function, self._depth(body))

    def _give_back(self, function: Node, depth: int) -> None:
        if depth > self._returns.get(function.id, 0):
            self._returns[function.id] = depth
            self._changed = True

    def _require_fresh(self, node: Node) -> None:
        if self._in_record(node) and any(self._depth(child) for child in node.named_children):
            raise _Keeps

    def _default(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is not None and right is not None:
            self._spread(left, self._depth(right))

    def _require_fresh_field(self, node: Node) -> None:
        value = node.child_by_field_name("value")
        is_static = node.children[0].type == "static"
        if value is not None and (self._depth(value) or (is_static and value.type not in _LITERALS)):
            raise _Keeps

    def _check_this(self, node: Node) -> None:
        """`this` is a new object in the methods of a class that are not static; elsewhere it may be anything."""
        function = function_around(node)
        while function is not None and function.type == "arrow_function":
            function = function_around(function)
        if function is None and self._in_class_field(node):
            return
        is_method = function is not None and function.type == "method_definition"
        if not is_method or function is None or function.parent is None or function.parent.type != "class_body":
            raise _Keeps
        if function.children[0].type == "static":
            raise _Keeps

    @staticmethod
    def _in_class_field(node: Node) -> bool:
        found: Node | None = node
        while found is not None and found.type != "field_definition":
            found = found.parent
        return found is not None and found.children[0].type != "static"

    def _check_initial(self, value: Node) -> None:
        """What a top-level name gets: nothing that a function of the script made, which may keep something."""
        for node in _evaluated(value):
            if node.type == "call_expression":
                self._check_initial_call(node)
            elif (
                node.type == "new_expression"
                and self._path(node.child_by_field_name("constructor")) not in _SAFE_CLASSES
            ):
                raise _Keeps
            elif node.type == "regex" and _STATEFUL_FLAGS & {*self._flags(node)}:
                raise _Keeps
            elif node.type in ("await_expression", "yield_expression", "class"):
                raise _Keeps

    def _check_initial_call(self, node: Node) -> None:
        callee = node.child_by_field_name("function")
        path = self._path(callee)
        if path in _PURE_CALLS or path.partition(".")[0] in _PURE_OBJECTS:
            return
        method = self._method(callee)
        is_kept_iterator = method in _ITERATORS and not _is_consumed(node)
        if method not in _READS or is_kept_iterator:
            raise _Keeps

    def _flags(self, regex: Node) -> str:
        flags = regex.child_by_field_name("flags")
        return "" if flags is None else self._script.text_of(flags)

    # ---- expressions ----

    def _depth(self, node: Node | None) -> int:
        """How deep a value goes that lives on. Raises _Keeps where it may be changed or get out of sight."""
        if node is None or node.type in _LITERALS:
            return 0
        match node.type:
            case "identifier" | "shorthand_property_identifier":
                return self._depth_of_name(node)
            case "parenthesized_expression" | "await_expression" | "spread_element":
                return max((self._depth(child) for child in node.named_children), default=0)
            case "sequence_expression":
                return self._depth(node.named_children[-1])
            case "ternary_expression":
                return max(self._depth(node.child_by_field_name(name)) for name in ("consequence", "alternative"))
            case "member_expression" | "subscript_expression":
                return self._depth_of_member(node)
            case "assignment_expression":
                return self._depth(node.child_by_field_name("right"))
            case "binary_expression" | "augmented_assignment_expression":
                sides = ("left", "right") if _is_logical(node) else ()
                return max((self._depth(node.child_by_field_name(name)) for name in sides), default=0)
            case "array" | "object":
                return self._depth_of_literal(node)
            case "regex":
                return 1
            case kind if kind in FUNCTIONS:
                return 0 if self._in_record(node) else 1
            case "call_expression":
                return self._depth_of_call(node)
            case "new_expression":
                return self._depth_of_new(node)
        return UNKNOWN

    def _depth_of_name(self, node: Node) -> int:
        """A function or class at top level is an object too: it may be given properties."""
        binding = self._binding(node)
        if binding is None:
            return 0
        is_callable = binding.declaration.type in _CALLABLES and binding.kind != "parameter" and self._is_outer(binding)
        return max(int(is_callable), self._depths.get(binding, 0))

    def _depth_of_member(self, node: Node) -> int:
        name = node.child_by_field_name("property")
        if name is not None and self._script.text_of(name) in ("length", "size"):
            return 0
        return _less(self._depth(node.child_by_field_name("object")))

    def _depth_of_literal(self, node: Node) -> int:
        """At top level an object lives on; in a function it is new, but what it holds may live on."""
        held = 0
        for child in node.named_children:
            if child.type == "spread_element":
                held = max(held, _less(self._depth(child)))
            elif child.type == "pair":
                held = max(held, self._depth(child.child_by_field_name("value")))
            elif child.type == "method_definition":
                continue
            else:
                held = max(held, self._depth(child))
        return min(UNKNOWN, held + 1) if held or not self._in_record(node) else 0

    def _depth_of_new(self, node: Node) -> int:
        held = self._depth_of_arguments(node)
        if self._path(node.child_by_field_name("constructor")) in _SAFE_CLASSES:
            return max(1, held) if held or not self._in_record(node) else 0
        if held:
            raise _Keeps
        return 0

    def _depth_of_arguments(self, node: Node, *, functions: bool = True) -> int:
        arguments = node.child_by_field_name("arguments")
        given = [] if arguments is None else arguments.named_children
        counted = given if functions else [each for each in given if self._callee(each) is None]
        return max((self._depth(each) for each in counted), default=0)

    def _depth_of_call(self, node: Node) -> int:
        callee = node.child_by_field_name("function")
        if callee is None or callee.type in ("super", "import"):
            return 0
        function = self._callee(callee)
        if function is not None:
            return self._call_function(function, node)
        given, path = self._depth_of_arguments(node), self._path(callee)
        if path in _PURE_CALLS or path.partition(".")[0] in _PURE_OBJECTS:
            return given
        if callee.type == "member_expression":
            return self._depth_of_method(node, callee, given)
        if given or any(self._returns.values()):
            raise _Keeps
        return 0

    def _depth_of_method(self, node: Node, callee: Node, given: int) -> int:
        """A method of a value: of one that lives on only those that change nothing."""
        owner, method = self._depth(callee.child_by_field_name("object")), self._method(callee)
        if (owner or given) and method not in _READS:
            raise _Keeps
        given = self._depth_of_arguments(node, functions=False)
        if not owner:
            return given
        self._call_back(node, owner)
        if method in _GIVE_PRIMITIVES:
            return 0
        return max(given, _less(owner) if method in _GIVE_ELEMENTS else owner if owner > 1 else 0)

    def _call_back(self, node: Node, depth: int) -> None:
        """Functions that a method of a kept value calls get its parts."""
        arguments = node.child_by_field_name("arguments")
        for given in [] if arguments is None else arguments.named_children:
            function = given if given.type in FUNCTIONS else self._callee(given)
            if function is not None:
                for parameter in _parameters(function):
                    self._spread(parameter, depth)

    def _call_function(self, function: Node, node: Node) -> int:
        arguments = node.child_by_field_name("arguments")
        given = [] if arguments is None else arguments.named_children
        depths = [self._depth(each) for each in given]
        if any(each.type == "spread_element" for each in given):
            depths = [max(depths, default=0)] * UNKNOWN
        for parameter, depth in zip(_parameters(function), depths, strict=False):
            self._spread(parameter, depth)
        return self._returns.get(function.id, 0)

    def _callee(self, node: Node) -> Node | None:
        """The function of the script that an expression means, if it is clear."""
        while node.type == "parenthesized_expression" and node.named_children:
            node = node.named_children[0]
        if node.type in FUNCTIONS:
            return node
        binding = self._binding(node) if node.type == "identifier" else None
        return None if binding is None else self._functions.get(binding)

    # ---- helpers ----

    def _binding(self, node: Node) -> Binding | None:
        return self._scopes.bindings.get(node.id)

    def _path(self, node: Node | None) -> str:
        """The dotted path of a global, empty when it is none."""
        if node is None:
            return ""
        root = node
        while root.type == "member_expression":
            inner = root.child_by_field_name("object")
            if inner is None:
                return ""
            root = inner
        if root.type != "identifier" or self._binding(root) is not None:
            return ""
        return "".join(self._script.text_of(node).split())

    def _method(self, callee: Node | None) -> str:
        name = None if callee is None else callee.child_by_field_name("property")
        return "" if name is None else self._script.text_of(name)

    def _spread(self, pattern: Node, depth: int) -> None:
        """Give the names of a pattern what they take from a value."""
        todo = [(pattern, depth)]
        while todo:
            node, left = todo.pop()
            if node.type in ("identifier", "shorthand_property_identifier_pattern"):
                self._deepen(self._binding(node), left)
            elif node.type in ("assignment_pattern", "object_assignment_pattern"):
                todo += [(child, left) for child in (node.child_by_field_name("left"),) if child is not None]
            elif node.type == "pair_pattern":
                todo += [(child, left) for child in (node.child_by_field_name("value"),) if child is not None]
            elif node.type == "rest_pattern":
                todo += [(child, min(UNKNOWN, left + 1) if left else 0) for child in node.named_children]
            elif node.type in ("object_pattern", "array_pattern"):
                todo += [(child, _less(left)) for child in node.named_children]

    def _deepen(self, binding: Binding | None, depth: int) -> None:
        if binding is not None and depth > self._depths.get(binding, 0):
            self._depths[binding] = depth
            self._changed = True


def _is_logical(node: Node) -> bool:
    """Whether an operator gives one of its sides, and not a new primitive value."""
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type in _LOGICAL


def _less(depth: int) -> int:
    """The depth of a part; a part of the unknown is unknown."""
    return depth if depth == UNKNOWN else max(0, depth - 1)


def _runs_at_once(function: Node) -> bool:
    """Whether a function is called where it stands, by a method that does not keep it: `LIST.forEach((x) => …)`."""
    arguments = function.parent
    call = None if arguments is None or arguments.type != "arguments" else arguments.parent
    if function.type == "class_static_block":
        return True
    if call is None or call.type != "call_expression":
        return False
    callee = call.child_by_field_name("function")
    name = None if callee is None else callee.child_by_field_name("property")
    return name is not None and (name.text or b"").decode(errors="replace") in _READS


def _evaluated(value: Node) -> Iterator[Node]:
    """The nodes of an expression that run with it: not those inside its functions."""
    todo = [value]
    while todo:
        node = todo.pop()
        yield node
        if node.type not in FUNCTIONS:
            todo += node.named_children


def _is_consumed(node: Node) -> bool:
    """Whether an iterator is read to its end where it is made."""
    parent = node.parent
    if parent is None:
        return False
    if parent.type == "spread_element":
        return True
    call = parent.parent if parent.type == "arguments" else None
    return call is not None and call.type in ("call_expression", "new_expression")


def _parameters(function: Node) -> list[Node]:
    single = function.child_by_field_name("parameter")
    if single is not None:
        return [single]
    parameters = function.child_by_field_name("parameters")
    return [] if parameters is None else parameters.named_children


def _targets(node: Node) -> Iterator[Node]:
    """What an assignment writes to: names and members."""
    todo = [node]
    while todo:
        found = todo.pop()
        match found.type:
            case "parenthesized_expression" | "object_pattern" | "array_pattern" | "rest_pattern":
                todo += found.named_children
            case "assignment_pattern" | "object_assignment_pattern":
                todo += [child for child in (found.child_by_field_name("left"),) if child is not None]
            case "pair_pattern":
                todo += [child for child in (found.child_by_field_name("value"),) if child is not None]
            case _:
                yield found


def _base(place: Node) -> Node:
    """What a chain of members begins with."""
    while place.type in ("member_expression", "subscript_expression", "parenthesized_expression"):
        inner = place.child_by_field_name("object") or (place.named_children[0] if place.named_children else None)
        if inner is None:
            return place
        place = inner
    return place


def _root(place: Node) -> Node | None:
    """The name, or `this`, that a chain of members begins with."""
    base = _base(place)
    return base if base.type in ("identifier", "shorthand_property_identifier_pattern", "this") else None


def _object(place: Node) -> Node | None:
    return place.child_by_field_name("object")


_NOBODY: Final = Binding("", "", None, None)  # type: ignore[arg-type]
