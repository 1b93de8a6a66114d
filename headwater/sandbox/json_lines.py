"""Converts the records of a batch to lines of JSON, which the child receives."""

import re
from itertools import chain
from typing import NamedTuple

from headwater import native
from headwater.native import BytesColumn, LongIntegerScan
from headwater.sandbox.results import ScriptFailure

_NO_VALUE = ScriptFailure("InvalidJSON", "the record has no value (a tombstone)")
_BROKEN_STRING = ScriptFailure("InvalidJSON", "the record has a line break in a string: write it as \\n")
_STRING = re.compile(rb'"[^"\\]*+(?:\\[\s\S][^"\\]*+)*+"?')
"""A JSON string; an unterminated one extends to the end of the text. Possessive quantifiers keep matching linear."""
_NOT_UTF8 = ScriptFailure("InvalidJSON", "the record is not valid UTF-8")


class ConvertedLines(NamedTuple):
    """The lines of a batch.

    Attributes:
        lines: One line per record; b"" for a record that can't be sent.
        failures: By row, why its record can't be sent.
        long_integers: Candidates for long integers, see `find_long_integers_by_row`.
    """

    lines: BytesColumn
    failures: dict[int, ScriptFailure]
    long_integers: list[int | list[int]]


def to_lines(values: BytesColumn) -> ConvertedLines:
    """Convert records to lines.

    A raw newline is white space in JSON and ends a line here, so it becomes a space; inside a string it is an error.
    """
    scan = native.find_long_integers(values.buffer)
    has_tombstones = values.min_size < 0  # the size of None is -1
    has_a_line_per_record = scan.newlines == len(values) and not has_tombstones
    if has_a_line_per_record and (scan.is_ascii or _is_utf8(values.buffer)):
        return ConvertedLines(values, {}, _by_row(scan))
    lines, failures = [], {}
    for row, value in enumerate(values):
        line, failure = _to_line(value)
        lines.append(line)
        if failure is not None:
            failures[row] = failure
    column = BytesColumn.of(lines)
    return ConvertedLines(column, failures, find_long_integers_by_row(column))


def _to_line(value: bytes | None) -> tuple[bytes, ScriptFailure | None]:
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


def find_long_integers_by_row(lines: BytesColumn) -> list[int | list[int]]:
    """Find candidates for integers of 16 digits or more.

    A double holds every integer of fewer digits exactly. Returns row numbers, each followed by the byte offsets in the
    row's line at which a candidate begins: [3, [17], 8, [17, 60]]. The list may contain false candidates. In lines that
    are JSON objects, no integer of 16 digits or more is missed. The parent searches because the child would need longer
    to inspect the parsed values.
    """
    return _by_row(native.find_long_integers(lines.buffer))


def _by_row(scan: LongIntegerScan) -> list[int | list[int]]:
    offsets: dict[int, list[int]] = {}
    for row, offset in zip(scan.lines, scan.offsets, strict=True):
        offsets.setdefault(row, []).append(offset)
    return list(chain.from_iterable(offsets.items()))
