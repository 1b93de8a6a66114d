"""Collects the names of a script, their possible values, and the results of functions."""

from collections.abc import Iterator
from typing import Final

from tree_sitter import Node

from headwater.sandbox.analysis import known_builtins
from headwater.sandbox.analysis.reachability import NOTHING, Reachability, join
from headwater.sandbox.analysis.scopes import FUNCTION_NODES, Binding, Scopes
from headwater.sandbox.analysis.tree import ParsedScript

MEMBER_NODES: Final = frozenset({"member_expression", "subscript_expression"})
NODES_THAT_REACH_NOTHING: Final = frozenset(
    {"number", "string", "template_string", "true", "false", "null", "undefined", "unary_expression"}
    | {"update_expression", "this", "super", "computed_property_name", "comment"}
)
"""Nodes whose values reach no surviving object (see reachability.py).

The values are primitive, or are the JavaScript `this`, which the analysis allows only where the current call of
`process` has created this object.
"""
_MAX_PATH: Final = 3
"""The most member accesses in the path of a global, such as `Object.keys`."""


class MayKeepState(Exception):
    """The script may keep state between records."""


class Facts:
    """Facts of one script.

    Attributes:
        scopes: The bindings of the script.
        own_methods: The names under which the script may store functions in objects.
        functions: The function to which a binding always refers, by binding.
        reach_of_names: The reachability of the values of a binding as far as it is known, by binding.
        reach_of_results: The reachability of a function's results as far as it is known, by the function's node id.
        is_changed: Whether something was added to `reach_of_names` or `reach_of_results`.
    """

    def __init__(self, script: ParsedScript, scopes: Scopes) -> None:
        self._script = script
        self.scopes = scopes
        self.reach_of_names: dict[Binding, Reachability] = {}
        self.reach_of_results: dict[int, Reachability] = {}
        self.is_changed = False
        self.own_methods = self._names_of_methods()
        self.functions = self._find_functions()

    # ---- facts from the text ----

    def text_of(self, node: Node) -> str:
        """Return the text of a node."""
        return self._script.text_of(node)

    def is_pure_method(self, name: str) -> bool:
        """Return whether a method of this name does not change the object on which it is called."""
        return name in known_builtins.PURE_METHODS and name not in self.own_methods

    def binding(self, node: Node) -> Binding | None:
        """Return the binding of an identifier; None for a global."""
        return self.scopes.bindings.get(node.id)

    def path(self, node: Node | None) -> str:
        """Return the dotted path of a global such as `Object.keys`; "" for another expression."""
        root = node
        for _ in range(_MAX_PATH):
            if root is not None and root.type == "member_expression":
                root = root.child_by_field_name("object")
        if node is None or root is None or root.type != "identifier" or self.binding(root) is not None:
            return ""
        return "".join(self._script.text_of(node).split()).replace("?.", ".")

    def property(self, node: Node) -> str:
        """Return the name in `object.name`; "" for another node."""
        return self.field_text(node, "property") if node.type == "member_expression" else ""

    def field_text(self, node: Node, field: str) -> str:
        """Return the text of a field of a node, without quotes."""
        child = node.child_by_field_name(field)
        return "" if child is None else self._script.text_of(child).strip("\"'")

    @staticmethod
    def arguments(node: Node) -> list[Node]:
        """Return the arguments of a call."""
        arguments = node.child_by_field_name("arguments")
        return (
            []
            if arguments is None
            else [argument for argument in arguments.named_children if argument.type != "comment"]
        )

    def function_of(self, node: Node) -> Node | None:
        """Return the function of the script to which an expression refers.

        Returns None if that is not certain.
        """
        while node.type == "parenthesized_expression" and node.named_children:
            node = node.named_children[-1]
        if node.type in FUNCTION_NODES:
            return node
        binding = self.binding(node) if node.type == "identifier" else None
        return None if binding is None else self.functions.get(binding)

    def _names_of_methods(self) -> frozenset[str]:
        """Return the names under which the script may store functions in objects.

        Raises MayKeepState for computed names.
        """
        names: set[str] = set()
        for node, _ in self.scopes.nodes:
            kind = node.type
            if kind == "method_definition":
                names.add(self._name_of_method(node.child_by_field_name("name")))
            elif kind in ("pair", "field_definition"):
                value = node.child_by_field_name("value")
                if value is not None and value.type not in NODES_THAT_REACH_NOTHING:
                    name = node.child_by_field_name("key" if kind == "pair" else "property")
                    if self._may_be_function(value):
                        names.add(self._name_of_method(name))
                    elif name is not None:
                        names.add(self.text_of(name).strip("\"'"))
            elif kind == "array" and self._may_become_method(node):
                raise MayKeepState
            elif kind == "object":
                names.update(
                    self.text_of(member)
                    for member in node.named_children
                    if member.type == "shorthand_property_identifier"
                )
            elif kind in ("assignment_expression", "augmented_assignment_expression", "for_in_statement"):
                left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
                names.update(self._name_of_target(target, right) for target in targets(left or node))
        return frozenset(names)

    def _name_of_method(self, name: Node | None) -> str:
        """Return a name as it is written, or the name of a symbol.

        Raises MayKeepState for a computed name, and for a name with an escape sequence.
        """
        if name is None:
            raise MayKeepState
        text = self.text_of(name)
        is_computed = text.startswith("[") and not text[1:].lstrip().startswith("Symbol.")
        if is_computed or "\\" in text:
            raise MayKeepState
        return text.strip("\"'")

    def _name_of_target(self, target: Node, right: Node | None) -> str:
        """Return the name of the member to which an assignment writes.

        Returns "" for a variable, and for a computed name under which certainly no function is stored. Raises
        MayKeepState for another computed name.
        """
        if target.type != "subscript_expression":
            return self.field_text(target, "property")
        index = target.child_by_field_name("index")
        if index is not None and index.type == "string":
            return self.text_of(index).strip("\"'")
        is_whole_target = target.parent is not None and target.parent.child_by_field_name("right") == right
        if right is None or not is_whole_target or self._may_be_function(right):
            raise MayKeepState
        return ""

    def _may_become_method(self, node: Node) -> bool:
        """Return whether an array may be an `Object.fromEntries` entry with a function."""
        if b"fromEntries" not in self._script.source:
            return False
        return any(self._may_be_function(element) for element in node.named_children)

    def _may_be_function(self, value: Node) -> bool:
        """Return whether the text of a value is a function of the script, or the name of one."""
        binding = self.binding(value)
        if binding is None or binding.kind == "parameter":
            return value.type in FUNCTION_NODES
        declared = binding.declaration.child_by_field_name("value") or binding.declaration
        return declared.type in FUNCTION_NODES

    def _find_functions(self) -> dict[Binding, Node]:
        """Return the functions to which bindings always refer."""
        functions: dict[Binding, Node] = {}
        for binding in {*self.scopes.bindings.values()}:
            declaration, function = binding.declaration, None
            if declaration.type in FUNCTION_NODES and binding.kind != "parameter":
                function = declaration
            elif declaration.type == "variable_declarator":
                name, value = declaration.child_by_field_name("name"), declaration.child_by_field_name("value")
                is_one_name = name is not None and name.type == "identifier"
                if is_one_name and value is not None and value.type in FUNCTION_NODES:
                    function = value
            if function is not None and binding.is_unique:
                functions[binding] = function
        for node, _ in self.scopes.nodes:
            if node.type in ("assignment_expression", "augmented_assignment_expression", "for_in_statement"):
                left = node.child_by_field_name("left")
                for target in [] if left is None else targets(left):
                    if (reassigned := self.binding(target)) is not None:
                        functions.pop(reassigned, None)
        return functions

    # ---- facts that the analysis adds ----

    def add_to_object(self, target: Node, value: Reachability) -> None:
        """Record that a value is stored in an object that a top-level name holds."""
        while target.type in MEMBER_NODES:
            value, inner = value.in_surviving_object(), target.child_by_field_name("object")
            if inner is None:
                raise MayKeepState
            target = inner
        binding = self.binding(target)
        if binding is None or target.type != "identifier":
            raise MayKeepState
        self.add_value(binding, value)

    def add_value(self, binding: Binding | None, value: Reachability) -> None:
        """Record that a name may hold a value. Raises MayKeepState for a global."""
        if binding is None:
            raise MayKeepState
        before = self.reach_of_names.get(binding, NOTHING)
        after = join((before, value))
        if after != before:
            self.reach_of_names[binding] = after
            self.is_changed = True

    def add_result(self, function: Node, value: Reachability) -> None:
        """Record that a function may return a value."""
        before = self.reach_of_results.get(function.id, NOTHING)
        after = join((before, value))
        if after != before:
            self.reach_of_results[function.id] = after
            self.is_changed = True

    def destructure(self, pattern: Node, value: Reachability) -> None:
        """Record the parts of a value that the names of a pattern may hold."""
        remaining = [(pattern, value)] if value.reaches_something else []
        while remaining:
            node, part = remaining.pop()
            match node.type:
                case "identifier" | "shorthand_property_identifier_pattern":
                    self.add_value(self.binding(node), part)
                case "assignment_pattern" | "object_assignment_pattern":
                    remaining += [(child, part) for child in node.children_by_field_name("left")]
                case "pair_pattern":
                    remaining += [(child, part) for child in node.children_by_field_name("value")]
                case "rest_pattern":
                    # A new array or object holds the values. If one of them may survive, the array or object counts as
                    # surviving too.
                    remaining += [
                        (child, part.in_new_object() if part.nearest else part.in_surviving_object())
                        for child in node.named_children
                    ]
                case "object_pattern" | "array_pattern":
                    remaining += [(child, part.member()) for child in node.named_children]
                case kind if kind in MEMBER_NODES and part.reaches_something:
                    raise MayKeepState


def parameters(function: Node) -> list[Node]:
    """Return the patterns of a function's parameters."""
    only_parameter = function.child_by_field_name("parameter")
    if only_parameter is not None:
        return [only_parameter]
    formal_parameters = function.child_by_field_name("parameters")
    if formal_parameters is None:
        return []
    return [parameter for parameter in formal_parameters.named_children if parameter.type != "comment"]


def targets(node: Node) -> Iterator[Node]:
    """Yield the names and members to which an assignment writes."""
    remaining = [node]
    while remaining:
        target = remaining.pop()
        match target.type:
            case "parenthesized_expression" | "object_pattern" | "array_pattern" | "rest_pattern":
                remaining += target.named_children
            case "assignment_pattern" | "object_assignment_pattern":
                remaining += target.children_by_field_name("left")
            case "pair_pattern":
                remaining += target.children_by_field_name("value")
            case "comment":
                pass
            case _:
                yield target
