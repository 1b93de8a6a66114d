"""Lines of JSON."""

import ctypes
from typing import NamedTuple

from headwater.native.library import address, blank_column, kernel


class Survey(NamedTuple):
    """Of lines. lines, places: where numbers may begin with 16 digits: numbers of lines, and places in them.

    Some more may be among them, but of the lines that are JSON objects no such number is missing.
    """

    newlines: int
    is_ascii: bool
    lines: list[int]
    places: list[int]


def survey(text: bytes, room: int = 1000) -> Survey:
    """What there is in a text. room: how many places are expected; it is done again when there are more."""
    lines, places = blank_column("i", room), blank_column("i", room)
    newlines, wide = ctypes.c_int64(), ctypes.c_int64()
    size, at_most = ctypes.c_int64(len(text)), ctypes.c_int64(room)
    found = kernel().survey_lines(
        text, size, address(lines), address(places), at_most, ctypes.byref(newlines), ctypes.byref(wide)
    )
    if found > room:
        return survey(text, found)
    return Survey(newlines.value, not wide.value, lines[:found].tolist(), places[:found].tolist())
