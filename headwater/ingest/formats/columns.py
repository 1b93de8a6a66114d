"""Text of a file's columns as JSON, by the types that the stream's fields have."""

import csv
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headwater.model.stream import Entity

ToJson = Callable[[str], bytes]
"""JSON of a text. Raises ValueError with what is wrong with it."""

_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_BOOLEANS: Final = MappingProxyType(
    {
        **dict.fromkeys(("true", "t", "1"), b"true"),
        **dict.fromkeys(("false", "f", "0"), b"false"),
    }
)
"""What PostgreSQL, pandas and spreadsheets write for a boolean, in lower case."""
_MAX_DIGITS: Final = 100
"""Of a whole number that is written with an exponent or a fraction; uint256 has 78."""

encode: Final = msgspec.json.encode


def types_of(entity: Entity | None) -> Mapping[str, str]:
    """The types of JSON Schema that an entity's fields have."""
    return {name: field.type for name, field in entity.fields.items()} if entity else {}


def type_of(example: Any) -> str | None:
    """The type of a member of an example record; None when it is null."""
    return _NAMES.get(type(example))


def to_json(type_: str | None) -> ToJson:
    """For a member of this type; None: nothing is known, and text stays text."""
    return encode if type_ is None else _BY_TYPE[type_]


def _whole(text: str) -> bytes:
    """Digits as they are; 17.0 and 1.2e3 as whole numbers, since many programs write whole columns so."""
    number = _fraction(text)
    if number.lstrip(b"-").isdigit():
        return number
    exact = Decimal(text)
    if exact == exact.to_integral_value() and exact.adjusted() < _MAX_DIGITS:
        return b"%d" % int(exact)
    return number


def _fraction(text: str) -> bytes:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{shown(text)} is no number")
    return text.encode()


def _boolean(text: str) -> bytes:
    found = _BOOLEANS.get(text.lower())
    if found is None:
        raise ValueError(f"{shown(text)} is neither true nor false")
    return found


def _list(text: str) -> bytes:
    """JSON, an array of PostgreSQL, or the members with commas between them, as ethereum-etl writes `topics`."""
    if text.startswith("["):
        return _container(text, "[")
    if text.startswith("{"):
        return encode(_postgres_array(text))
    return encode([member.strip() for member in text.split(",")])


def _postgres_array(text: str) -> list[str | None]:
    """The members of a one-dimensional array as PostgreSQL writes it: `{a,"b c",NULL}`. Raises ValueError.

    Source: PostgreSQL's documentation, section 8.15.6.
    """
    inner = text[1:-1]
    if not text.endswith("}") or "{" in inner or (inner and _is_json(text)):
        raise ValueError(f"{shown(text)} is neither a JSON list nor a one-dimensional array of PostgreSQL")
    rows = csv.reader([inner], escapechar="\\", doublequote=False, strict=True)
    try:
        members = next(rows, [])
    except csv.Error as error:
        raise ValueError(f"{shown(text)} is no array of PostgreSQL: {error}") from error
    return [None if member == "NULL" else member for member in members]


def _object(text: str) -> bytes:
    return _container(text, "{")


def _container(text: str, start: str) -> bytes:
    if not text.startswith(start) or not _is_json(text):
        raise ValueError(f"{shown(text)} is no JSON {'list' if start == '[' else 'object'}")
    return text.encode()


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refused)
    except (ValueError, RecursionError):
        return False
    return True


def _refused(constant: str) -> None:
    raise ValueError(constant)


def shown(text: str) -> str:
    """A text as an error quotes it: its first 40 characters."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


_BY_TYPE: Final[dict[str, ToJson]] = {
    "string": encode,
    "boolean": _boolean,
    "integer": _whole,
    "number": _fraction,
    "array": _list,
    "object": _object,
}
_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
