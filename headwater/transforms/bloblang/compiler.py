"""Compiles the syntax tree of a filter expression to a Python function of a record."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from headwater.transforms.bloblang.json_values import (
    COST_PER_ELEMENT,
    DELETED,
    FAILED,
    MISSING,
    NonJson,
    Value,
    consume_budget,
    consume_budget_shallow,
    decode_one_level,
    is_null_or_error,
)
from headwater.transforms.bloblang.methods import METHODS, element_or_byte
from headwater.transforms.bloblang.nodes import (
    Array,
    Catch,
    Coalesce,
    Deleted,
    Element,
    MapEach,
    MapQuery,
    Method,
    MethodChain,
    Node,
    Or,
    Path,
    ScopeValue,
    Step,
    StringLiteral,
    walk,
)

CompiledQuery = Callable[[Any], Value]
"""A compiled query, which is a function of a scope.

A scope is the record, or for an inner query the pair (outer scope, value).
"""
CompiledStep = Callable[[Value, Any], Value]
"""A compiled step, which maps a value and the scope to the next value."""

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_EVERY = "*"


def path_of_record(part: Node | Step) -> Path | None:
    """Return the first path of a chain that starts at the record (`this.a.b`).

    Return None for any other part.
    """
    match part:
        case MethodChain(ScopeValue(0), (Path() as path, *_)):
            return path
    return None


def single_member(node: Node) -> tuple[bytes | None, bool]:
    """Return the name of the only member that a query reads, and whether only strings match.

    The query is `this.<name>`, or `this.<name>.lowercase()`, which is an error for a value that is not a string.
    Returns (None, False) for any other query.
    """
    path = path_of_record(node)
    if path is None or len(path.names) > 1:
        return None, False
    assert isinstance(node, MethodChain)
    methods = node.steps[1:]
    if any(method != Method("lowercase") for method in methods):
        return None, False
    return path.names[0].encode(errors="surrogatepass"), bool(methods)


def _is_member(node: Node) -> bool:
    """Return whether a query is a member of the record without methods."""
    name, strings_only = single_member(node)
    return name is not None and not strings_only


class Compiler:
    """Compiles nodes of the syntax tree.

    The argument `depth` of its methods is how many MapQuery and MapEach nodes enclose the query.
    """

    def __init__(self, getter_of: Callable[[str], CompiledQuery]) -> None:
        """Create a compiler.

        Args:
            getter_of: Returns the function that gets a member of the record, by the name of the member.
        """
        self._getter_of = getter_of

    def compile_query(self, node: Node, depth: int) -> CompiledQuery:
        """Compile a query."""
        match node:
            case StringLiteral(text):
                return lambda _: text
            case Deleted():
                return lambda _: DELETED
            case ScopeValue(scope_number):
                return _compile_scope_value(scope_number, depth)
            case Array(items):
                queries = [self.compile_query(item, depth) for item in items]
                return _compile_array(queries, not all(_is_member(item) for item in items))
            case Coalesce(options):
                return _compile_coalesce([self.compile_query(option, depth) for option in options])
            case MethodChain():
                return self._compile_chain(node, depth)

    def _compile_chain(self, node: MethodChain, depth: int) -> CompiledQuery:
        path = path_of_record(node)
        if path is None:
            return _chain_steps(self.compile_query(node.source, depth), self._compile_steps(node.steps, depth))
        first, *names = path.names
        steps = [Path(tuple(names)), *node.steps[1:]]
        return _chain_steps(self._compile_member_of_record(first, depth), self._compile_steps(steps, depth))

    def _compile_steps(self, steps: Sequence[Step], depth: int) -> list[CompiledStep]:
        compiled: list[CompiledStep] = []
        for step in steps:
            if isinstance(step, Path):
                compiled += _compile_path(step.names)
            else:
                compiled.append(self._compile_step(step, depth))
        return compiled

    def _compile_member_of_record(self, name: str, depth: int) -> CompiledQuery:
        getter = self._getter_of(name)
        if not depth:
            return getter
        record = _compile_scope_value(0, depth)
        return lambda scope: getter(record(scope))

    def _compile_step(self, step: Element | Method | Or | Catch | MapQuery | MapEach, depth: int) -> CompiledStep:
        match step:
            case Element(position):
                return _compile_method_step(element_or_byte(position))
            case Method(name, arguments):
                compile_method = METHODS[name].compile
                assert compile_method
                return _compile_method_step(compile_method(*arguments))
            case Or(query):
                otherwise = self.compile_query(query, depth)
                return lambda value, scope: otherwise(scope) if is_null_or_error(value) else value
            case Catch(query):
                otherwise = self.compile_query(query, depth)
                return lambda value, scope: otherwise(scope) if value is FAILED else value
            case MapQuery(query):
                inner = self.compile_query(query, depth + 1)
                return lambda value, scope: FAILED if value is FAILED else inner((scope, value))
            case MapEach(query):
                work = COST_PER_ELEMENT * sum(1 for _ in walk(query))
                return _compile_map_each(self.compile_query(query, depth + 1), work)


def _compile_scope_value(scope_number: int, depth: int) -> CompiledQuery:
    """Compile a query, at nesting depth `depth`, for the value of its own or an outer scope."""
    levels = depth - scope_number

    def evaluate(scope: Any) -> Value:
        for _ in range(levels):
            scope = scope[0]
        return scope[1] if scope_number else scope

    return evaluate


def _chain_steps(source: CompiledQuery, steps: Sequence[CompiledStep]) -> CompiledQuery:
    if not steps:
        return source

    def evaluate(scope: Any) -> Value:
        value = source(scope)
        for step in steps:
            value = step(value, scope)
        return value

    return evaluate


def _compile_array(items: Sequence[CompiledQuery], may_be_non_json: bool) -> CompiledQuery:
    """Compile an array literal.

    Args:
        may_be_non_json: Whether an item may be `deleted()` or an error.
    """
    if not may_be_non_json:
        return lambda scope: [item(scope) for item in items]

    def evaluate(scope: Any) -> Value:
        values = [item(scope) for item in items]
        return _without_deleted(values) if NonJson in map(type, values) else values

    return evaluate


def _without_deleted(values: list[Value]) -> Value:
    """Return the elements of an array without deleted ones, or FAILED after an error."""
    return FAILED if FAILED in values else [value for value in values if value is not DELETED]


def _compile_coalesce(options: Sequence[CompiledQuery]) -> CompiledQuery:
    *first_options, last = options

    def evaluate(scope: Any) -> Value:
        for option in first_options:
            value = option(scope)
            if not is_null_or_error(value):
                return value
        return last(scope)

    return evaluate


def _compile_method_step(apply: Callable[[Value], Value]) -> CompiledStep:
    def step(value: Value, _: Any) -> Value:
        value = decode_one_level(value)
        return apply(value) if consume_budget_shallow(value) else FAILED

    return step


def _compile_map_each(query: CompiledQuery, work: int) -> CompiledStep:
    """Compile `.map_each( )`.

    For each member of an object, the query gets an object with the members `key` and `value`, and its result replaces
    the value.

    Args:
        query: The query of an element.
        work: How much of the work budget each element consumes.
    """

    def apply(value: Value, scope: Any) -> Value:
        value = decode_one_level(value)
        if isinstance(value, list):
            if not consume_budget(work * len(value)):
                return FAILED
            return _without_deleted([query((scope, item)) for item in value])
        if not isinstance(value, dict) or not consume_budget(work * len(value)):
            return FAILED
        by_name = {name: query((scope, {"key": name, "value": item})) for name, item in value.items()}
        if FAILED in by_name.values():
            return FAILED
        return {name: result for name, result in by_name.items() if result is not DELETED}

    return apply


def _compile_path(names: Sequence[str]) -> list[CompiledStep]:
    """Compile a path; its value is null when a member is missing."""
    if _EVERY in names:
        return [lambda value, _: _find_or_none(value, names)]
    return [_compile_path_step(name) for name in names]


def _compile_path_step(name: str) -> CompiledStep:
    """Compile a name in a path: a member of an object, or the index of an array element.

    The result is null for any other value, but an error for an error.
    """
    number = _index(name)

    def apply(value: Value, _: Any) -> Value:
        value = decode_one_level(value)
        if type(value) is dict:
            return value.get(name)
        if type(value) is list:
            return value[number] if 0 <= number < len(value) else None
        return FAILED if value is FAILED else None

    return apply


def _index(name: str) -> int:
    """Return the index that a name in a path stands for; -1 when it is not a number."""
    return int(name) if _NUMBER.fullmatch(name) else -1


def _find_or_none(value: Value, names: Sequence[str]) -> Value:
    found = _find(value, names)
    return None if found is MISSING else found


def _find(value: Value, names: Sequence[str]) -> Value:
    """Return the value at the end of a path, or MISSING.

    For a star, return an array with the values of all elements of an array in which the rest of the path exists.
    """
    for position, name in enumerate(names):
        value = decode_one_level(value)
        if isinstance(value, list) and name == _EVERY:
            return _find_each(value, names[position + 1 :])
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list):
            value = value[number] if 0 <= (number := _index(name)) < len(value) else MISSING
        else:
            return value if value is FAILED else MISSING
        if value is MISSING:
            return MISSING
    return value


def _find_each(values: list[Value], names: Sequence[str]) -> Value:
    if not consume_budget_shallow(values):
        return FAILED
    results = [result for value in values if (result := _find(value, names)) is not MISSING]
    return FAILED if FAILED in results else results or MISSING
