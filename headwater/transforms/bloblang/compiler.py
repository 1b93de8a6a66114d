"""Compiles the syntax tree of a filter expression to a function of a record."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from headwater.transforms.bloblang.json_values import (
    DELETED,
    FAILED,
    MISSING,
    WORK_PER_ELEMENT,
    Special,
    Value,
    is_nothing,
    opened,
    spend,
    spend_on,
)
from headwater.transforms.bloblang.methods import METHODS, element_or_byte
from headwater.transforms.bloblang.nodes import (
    Array,
    Catch,
    Chain,
    Coalesce,
    Deleted,
    Each,
    Element,
    Members,
    Method,
    Node,
    Or,
    Step,
    Text,
    Variable,
    Within,
    parts,
)

Select = Callable[[Any], Value]
"""A compiled query. It takes a scope: the record itself, or for an inner scope the pair (outer scope, value)."""
Apply = Callable[[Value, Any], Value]
"""A compiled step: it takes a value and the scope, and gives the next value."""

_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)
_EVERY = "*"


def path_of_record(part: Node | Step) -> Members | None:
    """The path that a chain begins with, if it begins at the record."""
    match part:
        case Chain(Variable(0), (Members() as path, *_)):
            return path
    return None


def single_member(node: Node) -> tuple[bytes | None, bool]:
    """The name of the member that an expression selects, None when it does more; and whether only strings count."""
    path = path_of_record(node)
    if path is None or len(path.names) > 1:
        return None, False
    assert isinstance(node, Chain)
    methods = node.steps[1:]
    if any(method != Method("lowercase") for method in methods):
        return None, False
    return path.names[0].encode(errors="surrogatepass"), bool(methods)


def _is_member(node: Node) -> bool:
    """Whether a query is a member of the record, as it is."""
    name, in_lower_case = single_member(node)
    return name is not None and not in_lower_case


class Compiler:
    """Compiles nodes. depth, an argument of its methods, is the number of the scope that a query is in.

    field: compiles the selection of a member of the record.
    """

    def __init__(self, field: Callable[[str], Select]) -> None:
        self._field = field

    def select(self, node: Node, depth: int) -> Select:
        """The function of a query."""
        match node:
            case Text(text):
                return lambda _: text
            case Deleted():
                return lambda _: DELETED
            case Variable(scope):
                return _variable(scope, depth)
            case Array(items):
                selects = [self.select(item, depth) for item in items]
                return _array(selects, not all(_is_member(item) for item in items))
            case Coalesce(options):
                return _coalesce([self.select(option, depth) for option in options])
            case Chain():
                return self._chain(node, depth)

    def _chain(self, node: Chain, depth: int) -> Select:
        path = path_of_record(node)
        if path is None:
            return _stepping(self.select(node.source, depth), self._steps(node.steps, depth))
        first, *names = path.names
        steps = [Members(tuple(names)), *node.steps[1:]]
        return _stepping(self._member_of_record(first, depth), self._steps(steps, depth))

    def _steps(self, steps: Sequence[Step], depth: int) -> list[Apply]:
        made: list[Apply] = []
        for step in steps:
            if isinstance(step, Members):
                made += _path(step.names)
            else:
                made.append(self._step(step, depth))
        return made

    def _member_of_record(self, name: str, depth: int) -> Select:
        field = self._field(name)
        if not depth:
            return field
        record = _variable(0, depth)
        return lambda scope: field(record(scope))

    def _step(self, step: Element | Method | Or | Catch | Within | Each, depth: int) -> Apply:
        match step:
            case Element(position):
                return _method(element_or_byte(position))
            case Method(name, arguments):
                make = METHODS[name].make
                assert make
                return _method(make(*arguments))
            case Or(query):
                otherwise = self.select(query, depth)
                return lambda value, scope: otherwise(scope) if is_nothing(value) else value
            case Catch(query):
                caught = self.select(query, depth)
                return lambda value, scope: caught(scope) if value is FAILED else value
            case Within(query):
                inner = self.select(query, depth + 1)
                return lambda value, scope: FAILED if value is FAILED else inner((scope, value))
            case Each(query):
                return _each(self.select(query, depth + 1), WORK_PER_ELEMENT * sum(1 for _ in parts(query)))


def _variable(scope: int, depth: int) -> Select:
    """The value of a scope, for a query in the scope of this depth."""
    outwards = depth - scope

    def select(at: Any) -> Value:
        for _ in range(outwards):
            at = at[0]
        return at[1] if scope else at

    return select


def _stepping(source: Select, steps: Sequence[Apply]) -> Select:
    if not steps:
        return source

    def select(scope: Any) -> Value:
        value = source(scope)
        for step in steps:
            value = step(value, scope)
        return value

    return select


def _array(items: Sequence[Select], may_be_special: bool) -> Select:
    """An array literal. may_be_special: an item may be deleted or an error."""
    if not may_be_special:
        return lambda scope: [item(scope) for item in items]

    def select(scope: Any) -> Value:
        values = [item(scope) for item in items]
        return _without_deleted(values) if Special in map(type, values) else values

    return select


def _without_deleted(values: list[Value]) -> Value:
    """The elements of an array; an error when one is an error."""
    return FAILED if FAILED in values else [value for value in values if value is not DELETED]


def _coalesce(options: Sequence[Select]) -> Select:
    *tried, last = options

    def select(scope: Any) -> Value:
        for option in tried:
            value = option(scope)
            if not is_nothing(value):
                return value
        return last(scope)

    return select


def _method(apply: Callable[[Value], Value]) -> Apply:
    def step(value: Value, _: Any) -> Value:
        value = opened(value)
        return apply(value) if spend_on(value) else FAILED

    return step


def _each(query: Select, work: int) -> Apply:
    """`.map_each( )` of an array, or of an object by names and values. work: what each element costs."""

    def apply(value: Value, scope: Any) -> Value:
        value = opened(value)
        if isinstance(value, list):
            if not spend(work * len(value)):
                return FAILED
            return _without_deleted([query((scope, item)) for item in value])
        if not isinstance(value, dict) or not spend(work * len(value)):
            return FAILED
        by_name = {name: query((scope, {"key": name, "value": item})) for name, item in value.items()}
        if FAILED in by_name.values():
            return FAILED
        return {name: result for name, result in by_name.items() if result is not DELETED}

    return apply


def _path(names: Sequence[str]) -> list[Apply]:
    """Members from a value on; null where one is missing."""
    return [lambda value, _: _found(value, names)] if _EVERY in names else [_child(name) for name in names]


def _child(name: str) -> Apply:
    """A member of an object or, by its number, of an array; null of anything else, but an error of an error."""
    number = _position(name)

    def apply(value: Value, _: Any) -> Value:
        value = opened(value)
        if type(value) is dict:
            return value.get(name)
        if type(value) is list:
            return value[number] if 0 <= number < len(value) else None
        return FAILED if value is FAILED else None

    return apply


def _position(name: str) -> int:
    """The array index that a name denotes; -1 when the name is not a number."""
    return int(name) if _INDEX.fullmatch(name) else -1


def _found(value: Value, names: Sequence[str]) -> Value:
    found = _find(value, names)
    return None if found is MISSING else found


def _find(value: Value, names: Sequence[str]) -> Value:
    """What a path leads to, or MISSING. A star stands for every element of an array that has the rest of the path."""
    for at, name in enumerate(names):
        value = opened(value)
        if isinstance(value, list) and name == _EVERY:
            return _find_each(value, names[at + 1 :])
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list):
            value = value[number] if 0 <= (number := _position(name)) < len(value) else MISSING
        else:
            return value if value is FAILED else MISSING
        if value is MISSING:
            return MISSING
    return value


def _find_each(values: list[Value], names: Sequence[str]) -> Value:
    if not spend_on(values):
        return FAILED
    found = [result for value in values if (result := _find(value, names)) is not MISSING]
    return FAILED if FAILED in found else found or MISSING
