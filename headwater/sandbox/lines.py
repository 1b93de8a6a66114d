"""Records as lines of one text, which is what the child gets."""

import contextlib
from collections.abc import Sequence
from itertools import repeat
from operator import contains

import msgspec
import numpy as np

from headwater.sandbox.results import ScriptError

_NEWLINE = ord("\n")
_NO_VALUE = ScriptError("InvalidJSON", "the record has no value (a tombstone)")
_NOT_UTF8 = ScriptError("InvalidJSON", "the record is not valid UTF-8")


def admit(values: Sequence[bytes | None]) -> tuple[list[bytes], bytes, dict[int, ScriptError]]:
    """The records as lines (b"" for those that are no text), the lines as one text, and the errors by row.

    A raw newline is white space in JSON and ends a line here, so it becomes a space; inside a string it is an error.
    """
    with contextlib.suppress(TypeError):  # some value is None
        text = b"\n".join(values)  # type: ignore[arg-type]
        if not any(map(contains, values, repeat(_NEWLINE))) and _is_utf8(text):  # type: ignore[arg-type]
            return values, text, {}  # type: ignore[return-value]  # none is None
    admitted, errors = [], {}
    for row, value in enumerate(values):
        line, error = _admit_one(value)
        admitted.append(line)
        if error is not None:
            errors[row] = error
    return admitted, b"\n".join(admitted), errors


def _admit_one(value: bytes | None) -> tuple[bytes, ScriptError | None]:
    if value is None:
        return b"", _NO_VALUE
    if not _is_utf8(value):
        return b"", _NOT_UTF8
    if b"\n" not in value:
        return value, None
    try:
        return msgspec.json.format(value, indent=-1), None
    except (msgspec.DecodeError, RecursionError) as error:
        return b"", ScriptError("InvalidJSON", str(error))


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def lines_with_long_integers(text: bytes) -> list[int]:
    """The lines where a number may begin with 16 digits: a double holds every integer with fewer.

    Some more may be among them, but no line with such a number is missing. In numpy, for the child would take four
    times as long to look at what it has parsed.
    """
    letters = np.frombuffer(text, np.uint8)
    digits = (letters - ord("0")) < 10  # what is below "0" becomes large
    for width in (1, 2, 4, 8):
        digits = digits[:-width] & digits[width:]
    digits[1:] &= ~digits[:-1]
    starts = np.flatnonzero(digits)
    before = letters[starts - 1]
    # Most are hex digits, text or fractions: behind a letter, a quote or a point.
    starts = starts[(before <= ord("-")) & (before != ord('"')) | (before == ord(":")) | (before == ord("["))]
    if not len(starts):
        return []
    ends = np.flatnonzero(letters == _NEWLINE)
    found: list[int] = np.unique(np.searchsorted(ends, starts)).tolist()
    return found
