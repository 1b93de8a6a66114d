"""An independent implementation of filter expressions.

It generates queries together with their expected results.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

NAMES = ["a", "b", "0", "1", "00", "+1", "odd name", 'q"', "\\", "☃", "", "*", "a.b", "~"]
TEXTS = ["x", "0xAB", ",", "", "é", " A,b ", '[1,"x"]y', '{"a":["q"]}', "null"]
SPACE = r"(?:(?![\x1c-\x1f])\s)"
DELETED = object()


class Number(str):
    """A number's JSON text."""


class Failed(Exception):
    """An error of a query."""


@dataclass(frozen=True)
class Env:
    """The values of `this` and of named variables."""

    this: Any
    names: dict[str, Any]


@dataclass(frozen=True)
class Query:
    """A query's text, and a function that evaluates it."""

    text: str
    meaning: Callable[[Env], Any]


@dataclass(frozen=True)
class Scope:
    """The scope of a query, which has the names that it may refer to.

    Attributes:
        record: Whether `this` is the whole record.
        this: Whether `this` is defined.
        names: The named variables.
    """

    record: bool = True
    this: bool = True
    names: tuple[str, ...] = ()


@cache
def queries(depth: int = 2, scope: Scope = Scope()) -> st.SearchStrategy[Query]:
    """Generate queries of one or more terms with `|` between them."""
    between = st.sampled_from(["|", " | ", "|\n ", " | # why\n"])
    return st.builds(_coalesced, st.lists(_terms(depth, scope), min_size=1, max_size=3), between)


def run(query: Query, record: Any) -> list[str]:
    """Return the strings that a query selects from a record, sorted."""
    try:
        return sorted(_texts(query.meaning(Env(record, {}))))
    except Failed:
        return []


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, bool):
        return [json.dumps(value)]
    return [value.lower()] if isinstance(value, str) and value else []


def _coalesced(terms: list[Query], between: str) -> Query:
    def meaning(env: Env) -> Any:
        for term in terms[:-1]:
            value = _or_none(term, env)
            if value is not None:
                return value
        return terms[-1].meaning(env)

    return Query(between.join(term.text for term in terms), meaning)


def _or_none(query: Query, env: Env) -> Any:
    try:
        value = query.meaning(env)
    except Failed:
        return None
    return None if value is DELETED else value


@st.composite
def _terms(draw: st.DrawFn, depth: int, scope: Scope) -> Query:
    query = draw(_sources(depth, scope))
    steps = draw(st.integers(query.text == "this" and scope.record, 3))
    for _ in range(steps):
        query = draw(_steps(query, depth, scope))
    return query


@cache
def _sources(depth: int, scope: Scope) -> st.SearchStrategy[Query]:
    options = [st.sampled_from(TEXTS).map(lambda text: Query(json.dumps(text), lambda _: text))]
    options += map(_named, scope.names)
    if scope.this:
        options.append(st.just(Query("this", lambda env: env.this)))
    if scope.this and not scope.record:
        options.append(st.just(Query("a", lambda env: _path(env.this, ["a"]))))
    if depth:
        items = st.lists(queries(depth - 1, scope), max_size=3)
        options.append(st.builds(_array, items, st.sampled_from([",", ", ", ",\n"])))
        options.append(queries(depth - 1, scope).map(lambda query: replace(query, text=f"( {query.text} )")))
        options.append(st.just(Query("deleted()", lambda _: DELETED)))
    return st.one_of(options)


def _named(name: str) -> st.SearchStrategy[Query]:
    return st.just(Query(name, lambda env: env.names[name]))


def _array(items: list[Query], comma: str) -> Query:
    def meaning(env: Env) -> Any:
        return [value for item in items if (value := item.meaning(env)) is not DELETED]

    return Query(f"[{comma.join(item.text for item in items)}]", meaning)


def _steps(source: Query, depth: int, scope: Scope) -> st.SearchStrategy[Query]:
    def then(text: str, change: Callable[[Any], Any]) -> Query:
        return Query(source.text + text, lambda env: change(source.meaning(env)))

    paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
    options: list[st.SearchStrategy[Query]] = [st.builds(lambda names: _member(source, names), paths)]
    if source.text == "this" and scope.record:
        return options[0]
    options += [
        st.sampled_from([*METHODS]).map(lambda name: then(f".{name}()", METHODS[name])),
        st.integers(-3, 3).map(lambda at: then(f"[{at}]", lambda value: _at(value, at, of_text=True))),
        st.integers(-3, 3).map(lambda at: then(f".index({at})", lambda value: _at(value, at))),
        st.tuples(st.integers(-3, 3), st.integers(-3, 3)).filter(lambda cut: not 0 < cut[1] <= cut[0])
        .map(lambda cut: then(f".slice({cut[0]}, {cut[1]})", lambda value: _slice(value, *cut))),
        st.sampled_from(TEXTS).map(lambda text: then(f".split({json.dumps(text)})", lambda value: _split(value, text))),
        st.sampled_from(TEXTS).map(
            lambda text: then(f".trim_prefix({json.dumps(text)})", lambda value: _text(value).removeprefix(text))
        ),
    ]  # fmt: skip
    if depth:
        options.append(queries(depth - 1, scope).map(lambda other: _or(source, other)))
        options.append(queries(depth - 1, replace(scope, this=False)).map(lambda other: _catch(source, other)))
        of_value = replace(scope, record=False, this=True)
        options.append(queries(depth - 1, of_value).map(lambda inner: _within(source, inner)))
        options.append(queries(depth - 1, of_value).map(lambda inner: _each(source, inner, None)))
        name = f"n{len(scope.names)}"
        named = replace(scope, names=(*scope.names, name))
        options.append(queries(depth - 1, named).map(lambda inner: _each(source, inner, name)))
    return st.one_of(options)


def _member(source: Query, names: list[str]) -> Query:
    """Append a path to a query.

    The query is put in parentheses, since `*` would apply to the rest of a longer path.
    """
    text = "".join(f".{name if name.isalnum() and name.isascii() else json.dumps(name)}" for name in names)
    text = f"this{text}" if source.text == "this" else f"({source.text} | deleted()){text}"
    return Query(text, lambda env: _path(_or_none(source, env), names))


def _path(value: Any, names: list[str]) -> Any:
    found = _search(value, names)
    return found[0] if found else None


def _search(value: Any, names: list[str]) -> list[Any]:
    """Return a list with the value at a path, or an empty list."""
    if not names:
        return [value]
    name, *rest = names
    if isinstance(value, dict) and name in value:
        return _search(value[name], rest)
    if isinstance(value, list) and name == "*":
        found = [inner for item in value for inner in _search(item, rest)]
        return [found] if found else []
    if isinstance(value, list) and name.lstrip("+-").isdecimal() and 0 <= int(name) < len(value):
        return _search(value[int(name)], rest)
    return []


def _or(source: Query, other: Query) -> Query:
    def meaning(env: Env) -> Any:
        value = _or_none(source, env)
        return other.meaning(env) if value is None else value

    return Query(f"{source.text}.or({other.text})", meaning)


def _catch(source: Query, other: Query) -> Query:
    def meaning(env: Env) -> Any:
        try:
            return source.meaning(env)
        except Failed:
            return other.meaning(env)

    return Query(f"{source.text}.catch({other.text})", meaning)


def _within(source: Query, inner: Query) -> Query:
    return Query(f"{source.text}.({inner.text})", lambda env: inner.meaning(replace(env, this=source.meaning(env))))


def _each(source: Query, inner: Query, name: str | None) -> Query:
    def of_item(env: Env, item: Any) -> Any:
        return inner.meaning(replace(env, names={**env.names, name: item}) if name else replace(env, this=item))

    def meaning(env: Env) -> Any:
        value = source.meaning(env)
        if isinstance(value, list):
            return [result for item in value if (result := of_item(env, item)) is not DELETED]
        if not isinstance(value, dict):
            raise Failed
        results = [(key, of_item(env, {"key": key, "value": item})) for key, item in value.items()]
        return {key: result for key, result in results if result is not DELETED}

    return Query(f"{source.text}.map_each({f'{name} -> ' if name else ''}{inner.text})", meaning)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Failed
    return value


def _at(value: Any, at: int, *, of_text: bool = False) -> Any:
    if of_text and type(value) is str:
        return chr(_at([*value.encode()], at))
    if not isinstance(value, list) or not -len(value) <= at < len(value):
        raise Failed
    return value[at]


def _slice(value: Any, low: int, high: int) -> Any:
    if type(value) is str:
        return bytes(_slice([*value.encode()], low, high)).decode(errors="replace")
    if not isinstance(value, list):
        raise Failed
    start = range(len(value) + 1)[low - 1] if -len(value) <= low < 0 else max(low, 0)
    end = len(value) + high if high < 0 else min(high, len(value))
    if start > max(end, 0):
        raise Failed
    return value[start : max(end, 0)]


def _split(value: Any, delimiter: str) -> Any:
    if isinstance(value, list):
        parts: list[list[Any]] = [[]]
        for item in value:
            parts = [*parts, []] if type(item) is str and item == delimiter else [*parts[:-1], [*parts[-1], item]]
        return parts
    return _text(value).split(delimiter) if delimiter else [*_text(value)]


def _flatten(value: Any) -> Any:
    if not isinstance(value, list):
        raise Failed
    return [inner for item in value for inner in (item if isinstance(item, list) else [item])]


def _values(value: Any) -> Any:
    if not isinstance(value, dict):
        raise Failed
    return [*value.values()]


def _string(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if value is None or value is DELETED:
        return "null"
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    if isinstance(value, dict):
        members = ",".join(f"{_json(name)}:{_json(value[name])}" for name in sorted(value))
        return f"{{{members}}}"
    return json.dumps(value)


def _json(value: Any) -> str:
    if type(value) is not str:
        return _string(value)
    text = json.dumps(value, ensure_ascii=False)
    return "".join(f"\\u{ord(letter):04x}" if letter in "<>&\u2028\u2029" else letter for letter in text)


def _parse_json(value: Any) -> Any:
    try:
        text = _text(value).lstrip(" \t\r\n")
        found, _ = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse).raw_decode(text)
    except ValueError:
        raise Failed from None
    return found


def _upper(letter: str) -> str:
    """Return the upper-case form of a letter if it is a single letter, or else the letter."""
    return next((text for text in (letter.upper(), letter.title()) if len(text) == 1), letter)


def _refuse(constant: str) -> Any:
    raise Failed(constant)


METHODS: dict[str, Callable[[Any], Any]] = {
    "lowercase": lambda value: _text(value).lower(),
    "uppercase": lambda value: "".join(map(_upper, _text(value))),
    "trim": lambda value: re.sub(rf"\A{SPACE}+|{SPACE}+\Z", "", _text(value)),
    "flatten": _flatten,
    "values": _values,
    "string": _string,
    "parse_json": _parse_json,
}
