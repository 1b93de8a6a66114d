"""Records as lines of one text, which is what the child gets."""

import re
from itertools import chain
from typing import NamedTuple

from headwater import native
from headwater.native import Survey, Texts
from headwater.sandbox.results import ScriptError

_NO_VALUE = ScriptError("InvalidJSON", "the record has no value (a tombstone)")
_BROKEN_STRING = ScriptError("InvalidJSON", "the record has a line break in a string: write it as \\n")
_STRING = re.compile(rb'"[^"\\]*+(?:\\[\s\S][^"\\]*+)*+"?')
"""To the end of the text when it has no end. Possessive: it keeps nothing to go back to."""
_NOT_UTF8 = ScriptError("InvalidJSON", "the record is not valid UTF-8")


class Admitted(NamedTuple):
    """Records as lines (b"" for those that are no text), errors by row, and see `long_integers`."""

    lines: Texts
    errors: dict[int, ScriptError]
    long: list[int | list[int]]


def admit(values: Texts) -> Admitted:
    """Make lines of records.

    A raw newline is white space in JSON and ends a line here, so it becomes a space; inside a string it is an error.
    """
    found = native.survey(values.text)
    plain = found.newlines == len(values) and values.smallest >= 0
    if plain and (found.is_ascii or _is_utf8(values.text)):
        return Admitted(values, {}, _by_line(found))
    admitted, errors = [], {}
    for row, value in enumerate(values):
        line, error = _admit_one(value)
        admitted.append(line)
        if error is not None:
            errors[row] = error
    lines = Texts.of(admitted)
    return Admitted(lines, errors, long_integers(lines))


def _admit_one(value: bytes | None) -> tuple[bytes, ScriptError | None]:
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


def long_integers(lines: Texts) -> list[int | list[int]]:
    """Where numbers may begin with 16 digits: a double holds every integer with fewer.

    A line's number and the places in it of first digits, and so on: [3, [17], 8, [17, 60]]. Some more may be among
    them, but of the lines that are JSON objects no such number is missing. Here, for the child would take longer to
    look at what it has parsed.
    """
    return _by_line(native.survey(lines.text))


def _by_line(found: Survey) -> list[int | list[int]]:
    places: dict[int, list[int]] = {}
    for row, place in zip(found.lines, found.places, strict=True):
        places.setdefault(row, []).append(place)
    return list(chain.from_iterable(places.items()))
