"""Converts the text of a file's columns to JSON, by the types of the stream's fields."""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headwater.model.stream import Entity

ToJson = Callable[[str], bytes]
"""Converts a text to JSON. Raises ValueError with the reason when it can't."""

_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_BOOLEANS: Final = MappingProxyType(
    {
        **dict.fromkeys(("true", "t", "1"), b"true"),
        **dict.fromkeys(("false", "f", "0"), b"false"),
    }
)
"""The texts that PostgreSQL, pandas and spreadsheets write for booleans, in lower case."""
_MAX_DIGITS: Final = 100
"""The maximum number of digits of an integer written with an exponent or a fraction. A uint256 has up to 78."""

_ARRAY_MEMBER: Final = re.compile(
    r'(?:\s*"(?P<quoted>(?:[^"\\]|\\.)*)"\s*|(?P<plain>(?:[^"\\,]|\\.)+))(?P<separator>,|\Z)', re.DOTALL
)
"""A member of a PostgreSQL array, which is quoted or plain, with the comma after it."""
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
encode: Final = msgspec.json.encode


def types_of(entity: Entity | None) -> Mapping[str, str]:
    """Return the JSON Schema types of an entity's fields."""
    return {name: field.type for name, field in entity.fields.items()} if entity else {}


def type_of(example: Any) -> str | None:
    """Return the JSON Schema type of a member of an example record; None for null."""
    return _TYPE_NAMES.get(type(example))


def converter_of(type_: str | None) -> ToJson:
    """Return the converter for a member of this type.

    None means an unknown type, whose text becomes a string.
    """
    return encode if type_ is None else _BY_TYPE[type_]


def _integer_json(text: str) -> bytes:
    """Convert an integer, and leave its digits unchanged.

    17.0 and 1.2e3 become integers, because many programs export integer columns in these forms. A number with more
    than _MAX_DIGITS digits stays as it is written.
    """
    number = _number_json(text)
    if number.lstrip(b"-").isdigit():
        return number
    try:
        exact = Decimal(text)
    except InvalidOperation:  # the exponent has too many digits
        return number
    if exact == exact.to_integral_value() and exact.adjusted() < _MAX_DIGITS:
        return b"%d" % int(exact)
    return number


def _number_json(text: str) -> bytes:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{quoted_excerpt(text)} is not a number")
    return text.encode()


def _boolean_json(text: str) -> bytes:
    boolean = _BOOLEANS.get(text.lower())
    if boolean is None:
        raise ValueError(f"{quoted_excerpt(text)} is neither true nor false")
    return boolean


def _list_json(text: str) -> bytes:
    """Convert a list in JSON, a PostgreSQL array, or members that are separated by commas.

    ethereum-etl writes `topics` with commas.
    """
    if text.startswith("["):
        return _container_json(text, "[")
    if text.startswith("{"):
        return encode(_postgres_array(text))
    return encode([member.strip() for member in text.split(",")])


def _postgres_array(text: str) -> list[str | None]:
    """Return the members of a one-dimensional array in PostgreSQL's form: `{a,"b c",NULL}`.

    Raises ValueError. Section 8.15.6 of PostgreSQL's documentation describes the form.
    """
    inner = text[1:-1]
    if not text.endswith("}") or "{" in inner or (inner and _is_json(text)):
        raise ValueError(f"{quoted_excerpt(text)} is neither a JSON list nor a one-dimensional array of PostgreSQL")
    members, end, has_next = list[str | None](), 0, bool(inner)
    while has_next:
        match = _ARRAY_MEMBER.match(inner, end)
        if match is None:
            raise ValueError(f"{quoted_excerpt(text)} is not an array of PostgreSQL")
        members.append(_array_member(match["quoted"], match["plain"]))
        end, has_next = match.end(), match["separator"] == ","
    return members


def _array_member(quoted: str | None, plain: str) -> str | None:
    if quoted is None and plain.strip().upper() == "NULL":
        return None
    return _ESCAPED.sub(r"\1", plain.strip() if quoted is None else quoted)


def _object_json(text: str) -> bytes:
    return _container_json(text, "{")


def _container_json(text: str, start: str) -> bytes:
    if not text.startswith(start) or not _is_json(text):
        raise ValueError(f"{quoted_excerpt(text)} is not a JSON {'list' if start == '[' else 'object'}")
    return text.encode()


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _reject_constant(constant: str) -> None:
    raise ValueError(constant)


def quoted_excerpt(text: str) -> str:
    """Return the first 40 characters of a text, quoted for an error message."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


_BY_TYPE: Final[dict[str, ToJson]] = {
    "string": encode,
    "boolean": _boolean_json,
    "integer": _integer_json,
    "number": _number_json,
    "array": _list_json,
    "object": _object_json,
}
_TYPE_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
