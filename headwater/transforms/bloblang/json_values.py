"""Decodes JSON values lazily: only what an expression reads is decoded.

A value is a Raw (JSON that is not decoded yet, or a number), str, bool, None, list, dict or a NonJson. Numbers remain
JSON text as in the record, so that no digit changes.
"""

import json
import re
import threading
from enum import Enum
from typing import Any

import msgspec

Raw = msgspec.Raw
Value = Any


class NonJson(Enum):
    """Results of a query that are not JSON values."""

    DELETED = "deleted"
    FAILED = "failed"  # an error, such as that of a method that a value does not have
    MISSING = "missing"


DELETED, FAILED, MISSING = NonJson.DELETED, NonJson.FAILED, NonJson.MISSING
NULL = Raw(b"null")

decode_raw = msgspec.json.Decoder(Raw).decode
decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
decode_array = msgspec.json.Decoder(list[Raw]).decode
string_or_null = msgspec.json.Decoder(str | None).decode
_ENCODE = msgspec.json.Encoder().encode
_ENCODE_SORTED = msgspec.json.Encoder(order="sorted").encode
_DECODE_KEEPING_NUMBER_TEXT = json.JSONDecoder(parse_int=Raw, parse_float=Raw).decode
_FIRST_VALUE = json.JSONDecoder().raw_decode
_QUOTE, _BRACE, _BRACKET = b'"{['
_ESCAPED_BY_GO = re.compile("[<>&\u2028\u2029]")
"""The characters that `string()` of Bloblang escapes, because encoding/json of Go does."""
_LONE_SURROGATES = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u]|\\u[^dD]|\\u[dD][0-7])"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
"""Group 1 matches the escapes to keep. Any other match is a surrogate without the other one of its pair."""
_LITERALS = {ord("t"): True, ord("f"): False, ord("n"): None}

FREE_SIZE = 4096
"""Work of at most this size consumes nothing of the work budget (see WORK_BUDGET_BYTES).

The size is the bytes of one level of JSON to decode, the characters of a string, or the elements of one level of an
array or object. `map_each()`, `parse_json()`, and `string()` of an array or
object always consume budget.
"""
WORK_BUDGET_BYTES = 8 << 20
"""The work budget for one record, in bytes of JSON, is this plus four times the size of the record.

A query that exceeds the budget results in an error, which never matches a set.
"""
COST_PER_ELEMENT = 16
"""The work for an element of an array, in bytes."""


class _Budget(threading.local):
    """The remaining work budget for the record that this thread processes, in bytes of JSON."""

    remaining = 0


_BUDGET = _Budget()


def reset_budget(record: bytes) -> None:
    """Set the work budget to that of a record."""
    _BUDGET.remaining = WORK_BUDGET_BYTES + 4 * len(record)


def consume_budget(size: int) -> bool:
    """Consume work from the budget. Returns whether the budget was sufficient."""
    _BUDGET.remaining -= size
    return _BUDGET.remaining >= 0


def consume_budget_shallow(value: Value) -> bool:
    """Consume the work of processing one level of a decoded value, if the value is large.

    Returns whether the budget was sufficient.
    """
    if not isinstance(value, str | list | dict) or len(value) <= FREE_SIZE:
        return True
    return consume_budget(len(value) if isinstance(value, str) else COST_PER_ELEMENT * len(value))


def decode_one_level(value: Value) -> Value:
    """Decode one level of a value. Its members or elements may still be Raw."""
    if type(value) is not Raw:
        return value
    view = memoryview(value)
    first = view[0]
    if first == _QUOTE:
        return string_or_null(value)
    if first != _BRACE and first != _BRACKET:
        return _LITERALS.get(first, value)
    if view.nbytes > FREE_SIZE and not consume_budget(view.nbytes):
        return FAILED
    return decode_object(value) if first == _BRACE else decode_array(value)


def is_null_or_error(value: Value) -> bool:
    """Return whether `|` and `.or()` replace a value: null, a deleted value, or an error."""
    if type(value) is Raw:
        return bytes(value) == b"null"
    return value is None or type(value) is NonJson


def to_string(value: Value) -> Value:
    """Return a string unchanged, and any other value as compact JSON with sorted names."""
    match value := decode_one_level(value):
        case NonJson.FAILED:
            return FAILED
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None | NonJson.DELETED:
            return "null"
        case list() | dict():
            return _json(value)
    return bytes(value).decode()  # a number


def _json(value: Value) -> Value:
    if not _consume_budget_deep(value):
        return FAILED
    decoded = _DECODE_KEEPING_NUMBER_TEXT(
        _ENCODE(value).decode()
    )  # to plain objects, so that nested names are sorted, too
    text = _ENCODE_SORTED(decoded)
    return _ESCAPED_BY_GO.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text.decode())


def _consume_budget_deep(value: Value) -> bool:
    """Consume the work of processing all levels of a value.

    Returns whether the budget was sufficient.
    """
    remaining = [value]
    while remaining:
        value = remaining.pop()
        if not consume_budget(memoryview(value).nbytes if type(value) is Raw else COST_PER_ELEMENT):
            return False
        if not consume_budget_shallow(value):
            return False
        if isinstance(value, list):
            remaining += value
        elif isinstance(value, dict):
            remaining += value.values()
    return True


def replace_lone_surrogates(text: bytes) -> bytes:
    """Replace each escape of a lone surrogate in JSON by the escape of U+FFFD."""
    return _LONE_SURROGATES.sub(lambda escape: escape[0] if escape[1] else rb"\ufffd", text)


def parse_json_prefix(text: str) -> Value:
    """Return the JSON value with which a text begins; FAILED when there is none."""
    if not consume_budget(len(text)):
        return FAILED
    data = text.encode()
    if b"\\u" in data:
        data = replace_lone_surrogates(data)
    try:
        return decode_raw(data)
    except (msgspec.DecodeError, RecursionError):
        return _first_value(data.decode().lstrip(" \t\r\n"))


def _first_value(text: str) -> Value:
    """Return the JSON value with which a text begins, whatever follows it."""
    try:
        _, end = _FIRST_VALUE(text)
        return FAILED if _has_incomplete_number(text, end) else decode_raw(text[:end].encode())
    except (ValueError, msgspec.DecodeError, RecursionError):
        return FAILED


def _has_incomplete_number(text: str, end: int) -> bool:
    """Return whether a text begins with an incomplete number, such as `1.` or `1e`.

    `end` is the end of the number without the incomplete part.
    """
    if text[0] not in "-0123456789" or end == len(text):
        return False
    is_whole = text[:end].lstrip("-").isdigit()
    return (text[end] == "." and is_whole) or (text[end] in "eE" and "e" not in text[:end].lower())
