"""Values of records, looked into no further than an expression needs.

A value is a Raw (JSON that is not looked into yet, or a number), str, bool, None, list, dict or a Special. Numbers stay
the JSON text that they are in the record, so that no digit changes.
"""

import json
import re
import threading
from enum import Enum
from typing import Any

import msgspec

Raw = msgspec.Raw
Value = Any


class Special(Enum):
    """Results that are no JSON values."""

    DELETED = "deleted"
    FAILED = "failed"  # an error, as of a method that a value does not have
    MISSING = "missing"


DELETED, FAILED, MISSING = Special.DELETED, Special.FAILED, Special.MISSING
NULL = Raw(b"null")

syntax = msgspec.json.Decoder(Raw).decode
members = msgspec.json.Decoder(dict[str, Raw]).decode
elements = msgspec.json.Decoder(list[Raw]).decode
string_or_null = msgspec.json.Decoder(str | None).decode
_ENCODE = msgspec.json.Encoder().encode
_ENCODE_SORTED = msgspec.json.Encoder(order="sorted").encode
_WITH_NUMBERS = json.JSONDecoder(parse_int=Raw, parse_float=Raw).decode
_FIRST_VALUE = json.JSONDecoder().raw_decode
_QUOTE, _BRACE, _BRACKET = b'"{['
_LITERALS = {ord("t"): True, ord("f"): False, ord("n"): None}

SMALL_BYTES = 4096
"""The size of JSON, and the length of strings and arrays, up to which looking into them costs nothing."""
MAX_WORK_BYTES = 8 << 20
"""The work for one record, in bytes of JSON, beside four times its size. What goes beyond is an error."""
WORK_PER_ELEMENT = 16
"""What an element of an array costs."""


class _Work(threading.local):
    """The work that is left for the record of this thread, in bytes of JSON."""

    left = 0


_WORK = _Work()


def begin_record(record: bytes) -> None:
    """Begin to count the work for a record."""
    _WORK.left = MAX_WORK_BYTES + 4 * len(record)


def spend(size: int) -> bool:
    """Spend work. False when there was too much of it for this record."""
    _WORK.left -= size
    return _WORK.left >= 0


def spend_on(value: Value) -> bool:
    """Spend the work of looking into an opened value, if it is large. False when there was too much."""
    if not isinstance(value, str | list | dict) or len(value) <= SMALL_BYTES:
        return True
    return spend(len(value) if isinstance(value, str) else WORK_PER_ELEMENT * len(value))


def opened(value: Value) -> Value:
    """A value with its members or elements at hand, which may be Raw themselves."""
    if type(value) is not Raw:
        return value
    view = memoryview(value)
    first = view[0]
    if first == _QUOTE:
        return string_or_null(value)
    if first != _BRACE and first != _BRACKET:
        return _LITERALS.get(first, value)
    if view.nbytes > SMALL_BYTES and not spend(view.nbytes):
        return FAILED
    return members(value) if first == _BRACE else elements(value)


def is_nothing(value: Value) -> bool:
    """Whether `|` and `.or()` take another value: for null, a deleted value and an error."""
    if type(value) is Raw:
        return bytes(value) == b"null"
    return value is None or type(value) is Special


def string_of(value: Value) -> Value:
    """The text of a value: JSON without space and with sorted names, where it is no string."""
    match value := opened(value):
        case Special.FAILED:
            return FAILED
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None | Special.DELETED:
            return "null"
        case list() | dict():
            return _json(value)
    return bytes(value).decode()  # a number


def _json(value: Value) -> Value:
    if not _spend_on_all_of(value):
        return FAILED
    text = _ENCODE_SORTED(_WITH_NUMBERS(_ENCODE(value).decode()))
    return _HTML.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text.decode())


def _spend_on_all_of(value: Value) -> bool:
    """Spend the work of looking into a value and all that is in it. False when there was too much."""
    todo = [value]
    while todo:
        value = todo.pop()
        if not spend(memoryview(value).nbytes if type(value) is Raw else WORK_PER_ELEMENT):
            return False
        if not spend_on(value):
            return False
        if isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            todo += value.values()
    return True


_HTML = re.compile("[<>&\u2028\u2029]")
# Group 1: escapes to keep. Else: one half of a pair without the other.
_HALVES = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u]|\\u[^dD]|\\u[dD][0-7])"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)


def whole_characters(text: bytes) -> bytes:
    """JSON in which each escape of half a surrogate pair is replaced by one of U+FFFD."""
    return _HALVES.sub(lambda escape: escape[0] if escape[1] else rb"\ufffd", text)


def parsed(text: str) -> Value:
    """The JSON value that a text begins with; FAILED when there is none."""
    if not spend(len(text)):
        return FAILED
    data = text.encode()
    if b"\\u" in data:
        data = whole_characters(data)
    try:
        return syntax(data)
    except (msgspec.DecodeError, RecursionError):
        return _first_value(data.decode().lstrip(" \t\r\n"))


def _first_value(text: str) -> Value:
    """The JSON value that a text begins with, whatever follows."""
    try:
        _, end = _FIRST_VALUE(text)
        return FAILED if _is_cut_number(text, end) else syntax(text[:end].encode())
    except (ValueError, msgspec.DecodeError, RecursionError):
        return FAILED


def _is_cut_number(text: str, end: int) -> bool:
    """Whether the number before `end` goes on, with a fraction or exponent that has no digits."""
    if text[0] not in "-0123456789" or end == len(text):
        return False
    is_whole = text[:end].lstrip("-").isdigit()
    return (text[end] == "." and is_whole) or (text[end] in "eE" and "e" not in text[:end].lower())
