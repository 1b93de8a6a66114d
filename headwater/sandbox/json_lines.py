"""Converts a batch's records to newline-separated JSON, which the child receives."""

import re
from itertools import chain
from typing import NamedTuple

from headwater import native
from headwater.native import BytesColumn, LongIntegerScan
from headwater.sandbox.results import ScriptError

_NO_VALUE = ScriptError("InvalidJSON", "the record has no value (a tombstone)")
_BROKEN_STRING = ScriptError("InvalidJSON", "the record has a line break in a string: write it as \\n")
_STRING = re.compile(rb'"[^"\\]*+(?:\\[\s\S][^"\\]*+)*+"?')
"""A JSON string; an unterminated one extends to the end of the text. Possessive quantifiers keep matching linear."""
_NOT_UTF8 = ScriptError("InvalidJSON", "the record is not valid UTF-8")


class ConvertedLines(NamedTuple):
    """The lines of a batch.

    Attributes:
        lines: One line per record; b"" for a record that can't be sent.
        errors: By row, why a record can't be sent.
        long_integers: Candidates for long integers, see the function `long_integers`.
    """

    lines: BytesColumn
    errors: dict[int, ScriptError]
    long_integers: list[int | list[int]]


def to_lines(values: BytesColumn) -> ConvertedLines:
    """Convert records to lines.

    A raw newline is white space in JSON and ends a line here, so it becomes a space; inside a string it is an error.
    """
    found = native.find_long_integers(values.buffer)
    plain = found.newlines == len(values) and values.min_size >= 0
    if plain and (found.is_ascii or _is_utf8(values.buffer)):
        return ConvertedLines(values, {}, _by_row(found))
    lines, errors = [], {}
    for row, value in enumerate(values):
        line, error = _to_line(value)
        lines.append(line)
        if error is not None:
            errors[row] = error
    column = BytesColumn.of(lines)
    return ConvertedLines(column, errors, long_integers(column))


def _to_line(value: bytes | None) -> tuple[bytes, ScriptError | None]:
    if value is None:
        return b"", _NO_VALUE
    if not _is_utf8(value):
        return b"", _NOT_UTF8
    if b"\n" not in value:
        return value, None
    if any(b"\n" in string for string in _STRING.findall(value)):
        return b"", _BROKEN_STRING
    return value.replace(b"\n", b" "), None


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def long_integers(lines: BytesColumn) -> list[int | list[int]]:
    """Find candidates for integers of 16 digits or more.

    A double holds every integer of fewer digits exactly. Returns line numbers, each followed by the byte offsets of
    first digits in that line: [3, [17], 8, [17, 60]]. The list may contain false candidates. In lines that are JSON
    objects, no integer of 16 digits or more is missed. The parent searches because the child would need longer to
    inspect the parsed values.
    """
    return _by_row(native.find_long_integers(lines.buffer))


def _by_row(found: LongIntegerScan) -> list[int | list[int]]:
    offsets: dict[int, list[int]] = {}
    for row, offset in zip(found.lines, found.offsets, strict=True):
        offsets.setdefault(row, []).append(offset)
    return list(chain.from_iterable(offsets.items()))
