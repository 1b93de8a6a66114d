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
    """What is no JSON value."""

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
"""JSON of up to this size is looked into without counting it, and so are strings and arrays of this length."""
MAX_WORK_BYTES = 8 << 20
"""How much JSON is looked into for one record, beside four times the record; what goes beyond is an error."""
WORK_PER_ELEMENT = 16
"""What an element of an array counts in addition."""


class _Work(threading.local):
    """left: how many bytes may still be looked into for this thread's record."""

    left = 0


_WORK = _Work()


def allow_work(record: bytes) -> None:
    """Begin to count for a record."""
    _WORK.left = MAX_WORK_BYTES + 4 * len(record)


def affordable(size: int) -> bool:
    """Count the size of what is looked into; False: there was too much of it for this record."""
    _WORK.left -= size
    return _WORK.left >= 0


def is_affordable(value: Value) -> bool:
    """Count a value that is opened, if it is large; False: there was too much for this record."""
    if not isinstance(value, str | list | dict) or len(value) <= SMALL_BYTES:
        return True
    return affordable(len(value) if isinstance(value, str) else WORK_PER_ELEMENT * len(value))


def opened(value: Value) -> Value:
    """A value whose members or elements are there, though not theirs."""
    if type(value) is not Raw:
        return value
    view = memoryview(value)
    first = view[0]
    if first == _QUOTE:
        return string_or_null(value)
    if first != _BRACE and first != _BRACKET:
        return _LITERALS.get(first, value)
    if view.nbytes > SMALL_BYTES and not affordable(view.nbytes):
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
    if not _is_affordable_whole(value):
        return FAILED
    text = _ENCODE_SORTED(_WITH_NUMBERS(_ENCODE(value).decode()))
    return _HTML.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text.decode())


def _is_affordable_whole(value: Value) -> bool:
    """Count a value and all that is in it."""
    todo = [value]
    while todo:
        value = todo.pop()
        if not affordable(memoryview(value).nbytes if type(value) is Raw else WORK_PER_ELEMENT):
            return False
        if not is_affordable(value):
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
    """JSON where no escape is half a surrogate pair."""
    return _HALVES.sub(lambda escape: escape[0] if escape[1] else rb"\ufffd", text)


def parsed(text: str) -> Value:
    """The JSON value that a text begins with; FAILED when there is none."""
    if not affordable(len(text)):
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
