"""Finds integers of 16 or more digits in lines of JSON."""

from typing import NamedTuple

from headwater.native.ffi import FFI, native_library, pointer, zeroed_column


class LongIntegerScan(NamedTuple):
    """The candidates for integers of 16 or more digits in a text of JSON lines.

    Every such integer of a line that is a JSON object is a candidate, and other runs of digits may be candidates too.

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
    """Find the candidates for integers of 16 or more digits in a text.

    `capacity` is the size of the first buffers; a text with more candidates is scanned twice.
    """
    lines, offsets = zeroed_column("i", capacity), zeroed_column("i", capacity)
    newlines, has_non_ascii = FFI.new("int64_t *"), FFI.new("int64_t *")
    scan, buffers = native_library().find_long_integers, (pointer(lines), pointer(offsets))
    count: int = scan(text, len(text), *buffers, capacity, newlines, has_non_ascii)
    if count > capacity:
        return find_long_integers(text, count)
    return LongIntegerScan(newlines[0], not has_non_ascii[0], lines[:count].tolist(), offsets[:count].tolist())
