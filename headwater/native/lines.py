"""Lines of JSON."""

from typing import NamedTuple

from headwater.native.library import FFI, blank_column, kernel, pointer


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
    newlines, wide = FFI.new("int64_t *"), FFI.new("int64_t *")
    found: int = kernel().survey_lines(text, len(text), pointer(lines), pointer(places), room, newlines, wide)
    if found > room:
        return survey(text, found)
    return Survey(newlines[0], not wide[0], lines[:found].tolist(), places[:found].tolist())
