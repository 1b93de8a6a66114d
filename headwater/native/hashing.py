"""Values of a set: stored forms, hashes, and filters that know which ones a set may hold. Arrays are numpy's."""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.native.library import address_of_array, kernel

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]


def decode_hex(lines: bytes, count: int, prefix: bytes, tag: bytes) -> Bytes | None:
    """Lines of a prefix and lower-case hex, all of the same length, each ended by a newline, as rows: a tag, the bytes.

    None when one is something else.
    """
    digits = len(lines) // count - 1 - len(prefix)
    if digits % 2 or digits <= 0 or len(lines) % count:
        return None
    rows = np.empty((count, 1 + digits // 2), np.uint8)
    sizes = ctypes.c_int64(len(prefix)), ctypes.c_int64(digits // 2)
    if kernel().decode_hex(lines, ctypes.c_int64(count), prefix, *sizes, ctypes.c_uint8(*tag), address_of_array(rows)):
        return rows
    return None


def hash_rows(rows: Bytes, seed: int) -> Hashes:
    """XXH3 of 64 bits with a seed of each row. rows: 17 to 64 bytes wide."""
    hashes = np.empty(len(rows), np.uint64)
    place = address_of_array(np.ascontiguousarray(rows))
    kernel().hash_rows(place, *_numbers(*rows.shape), ctypes.c_uint64(seed), address_of_array(hashes))
    return hashes


def add_to_filter(words: Hashes, hashes: Hashes) -> None:
    """From now on these are maybes. One thread at a time."""
    kernel().add_to_filter(address_of_array(words), *_numbers(len(words)), *_column(hashes))


def look_into_filter(words: Hashes, hashes: Hashes, maybe: npt.NDArray[np.bool_]) -> None:
    """Set `maybe` for each hash that may have been added."""
    kernel().look_into_filter(address_of_array(words), *_numbers(len(words)), *_column(hashes), address_of_array(maybe))


def _column(hashes: Hashes) -> tuple[Any, Any]:
    return address_of_array(np.ascontiguousarray(hashes)), ctypes.c_int64(len(hashes))


def _numbers(*numbers: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(number) for number in numbers]
