"""Records as lines of one text, which is what the child gets."""

from itertools import chain

import msgspec

from headwater import native
from headwater.native import Texts
from headwater.sandbox.results import ScriptError

_LONG = 16
_NO_VALUE = ScriptError("InvalidJSON", "the record has no value (a tombstone)")
_NOT_UTF8 = ScriptError("InvalidJSON", "the record is not valid UTF-8")


def admit(values: Texts) -> tuple[Texts, dict[int, ScriptError]]:
    """The records as lines (b"" for those that are no text), and the errors by row.

    A raw newline is white space in JSON and ends a line here, so it becomes a space; inside a string it is an error.
    """
    if -1 not in values.sizes and values.text.count(b"\n") == len(values) and _is_utf8(values.text):
        return values, {}
    admitted, errors = [], {}
    for row, value in enumerate(values):
        line, error = _admit_one(value)
        admitted.append(line)
        if error is not None:
            errors[row] = error
    return Texts.of(admitted), errors


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
