"""Long integers in lines of JSON."""

import ctypes

from headwater.native.library import address, blank_column, kernel


def long_integers(text: bytes, room: int) -> tuple[list[int], list[int]]:
    """Where numbers may begin with 16 digits, in lines of UTF-8: numbers of lines, and places in them, at most `room`.

    Some more may be among them, but of the lines that are JSON objects no such number is missing.
    """
    lines, places = blank_column("i", room), blank_column("i", room)
    found = kernel().long_integers(
        text, ctypes.c_int64(len(text)), address(lines), address(places), ctypes.c_int64(room)
    )
    return lines[:found].tolist(), places[:found].tolist()
