"""Records as lines of one text, which is what the child gets."""

import contextlib
from collections.abc import Sequence
from itertools import chain, repeat
from operator import contains
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from headwater.sandbox.results import ScriptError

Words: TypeAlias = npt.NDArray[np.uint64]

_NEWLINE = ord("\n")
_WORD = 8
_PART = 1 << 15
_ONE = np.uint64(1)
_HIGH, _DIGITS, _TO_DIGIT_END = (np.uint64(byte * 0x0101010101010101) for byte in (0xF0, 0x30, 0x06))
_NOWHERE = np.zeros(0, np.intp)
_EXPONENT_OF_1, _BYTES_OF_EXPONENT = 1023 << 52, 52 + 3
_IN_FRONT = np.zeros(256, bool)
"""What may stand before a number. Most digits in a row are hex, text or fractions: behind a letter, quote or point."""
_IN_FRONT[list(b"\t\r ,-:[")] = True
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


def long_integers(lines: Sequence[bytes], text: bytes) -> list[int | list[int]]:
    """Where numbers may begin with 16 digits: a double holds every integer with fewer. text: the lines joined.

    A line's number and the places in it of first digits, and so on: [3, [17], 8, [17, 60]]. Some more may be among
    them, but of the lines that are JSON objects no such number is missing. In numpy, for the child would take longer to
    look at what it has parsed; by words, since 16 digits in a row fill at least one of them.
    """
    words, letters = np.frombuffer(text, "<u8", len(text) // _WORD), np.frombuffer(text, np.uint8)
    full = _likely_words(words)
    full = full[_others(words[full]) == 0]
    before = _others(words[full - 1])
    full, before = full[before != 0], before[before != 0]
    leading = _WORD - 1 - _highest(before)
    starts = _WORD * full - leading
    in_front = _IN_FRONT[letters[starts - 1]]
    full, leading, starts = full[in_front], leading[in_front], starts[in_front]
    # A full word that is the text's last has no word behind it: then it stands for that too.
    after = _others(words[np.minimum(full + 1, len(words) - 1)])
    following = np.where(after == 0, _WORD, _highest(after & (~after + _ONE)))
    starts = starts[leading + following >= _WORD]
    if not len(starts):
        return []
    lengths = np.fromiter(map(len, lines), np.intp, len(lines)) + 1
    ends = np.cumsum(lengths)
    rows = np.searchsorted(ends, starts, "right")
    places = starts - (ends - lengths)[rows]
    found: dict[int, list[int]] = {}
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        found.setdefault(row, []).append(place)
    return list(chain.from_iterable(found.items()))


def _likely_words(words: Words) -> Any:
    """Where all eight letters are among the 16 of which ten are digits. In parts that stay in the processor's cache."""
    starts = range(0, len(words), _PART)
    found = [np.flatnonzero((words[at : at + _PART] & _HIGH) == _DIGITS) + at for at in starts]
    return np.concatenate(found or [_NOWHERE])


def _others(words: Words) -> Words:
    """Words with bits set in the bytes that are no digits; the texts are UTF-8, so no byte overflows into the next."""
    return ((words & _HIGH) ^ _DIGITS) | (((words + _TO_DIGIT_END) & _HIGH) ^ _DIGITS)


def _highest(words: Words) -> Any:
    """The number of the highest byte that is not 0, by the exponent of a double. In text, later bytes are higher."""
    return (words.astype(np.float64).view(np.int64) - _EXPONENT_OF_1) >> _BYTES_OF_EXPONENT
