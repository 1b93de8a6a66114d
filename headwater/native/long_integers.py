"""Finds integers of 16 or more digits in lines of JSON."""

from typing import NamedTuple

from headwater.native.ffi import FFI, native_library, pointer, zeroed_column


class LongIntegerScan(NamedTuple):
    """The candidates for integers of 16 or more digits in a text of JSON lines.

    A candidate need not be an integer. Every such integer of a line that is a JSON object is a candidate.

    Attributes:
        newlines: How many newlines the text has.
        is_ascii: Whether all bytes are ASCII.
        lines: The index of the line of each candidate.
        offsets: The byte offset of each candidate in its line.
    """

    newlines: int
    is_ascii: bool
    lines: list[int]
    offsets: list[int]


def find_long_integers(text: bytes, capacity: int = 1000) -> LongIntegerScan:
    """Scan a text.

    `capacity` candidates are expected; with more, the text is scanned again with larger buffers.
    """
    lines, offsets = zeroed_column("i", capacity), zeroed_column("i", capacity)
    newlines, has_non_ascii = FFI.new("int64_t *"), FFI.new("int64_t *")
    scan, buffers = native_library().find_long_integers, (pointer(lines), pointer(offsets))
    found: int = scan(text, len(text), *buffers, capacity, newlines, has_non_ascii)
    if found > capacity:
        return find_long_integers(text, found)
    return LongIntegerScan(newlines[0], not has_non_ascii[0], lines[:found].tolist(), offsets[:found].tolist())
