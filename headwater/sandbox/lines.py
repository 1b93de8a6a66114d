"""Records as lines of one text, which is what the child gets."""

import contextlib
from collections.abc import Sequence
from itertools import chain

import msgspec

from headwater import native
from headwater.sandbox.results import ScriptError

_NEWLINE = b"\n"
_LONG = 16
_NO_VALUE = ScriptError("InvalidJSON", "the record has no value (a tombstone)")
_NOT_UTF8 = ScriptError("InvalidJSON", "the record is not valid UTF-8")


def admit(values: Sequence[bytes | None]) -> tuple[list[bytes], bytes, dict[int, ScriptError]]:
    """The records as lines (b"" for those that are no text), the lines as one text, and the errors by row.

    A raw newline is white space in JSON and ends a line here, so it becomes a space; inside a string it is an error.
    """
    with contextlib.suppress(TypeError):  # some value is None
        text = b"\n".join(values)  # type: ignore[arg-type]
        if text.count(_NEWLINE) < max(1, len(values)) and _is_utf8(text):
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


def long_integers(text: bytes) -> list[int | list[int]]:
    """Where numbers may begin with 16 digits: a double holds every integer with fewer. text: lines.

    A line's number and the places in it of first digits, and so on: [3, [17], 8, [17, 60]]. Some more may be among
    them, but of the lines that are JSON objects no such number is missing. Here, for the child would take longer to
    look at what it has parsed.
    """
    found: dict[int, list[int]] = {}
    for row, place in zip(*native.long_integers(text, len(text) // _LONG + 1), strict=True):
        found.setdefault(row, []).append(place)
    return list(chain.from_iterable(found.items()))
