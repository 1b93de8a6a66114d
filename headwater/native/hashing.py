"""Values of a set: stored forms, hashes, and filters that know which ones a set may hold. Arrays are numpy's."""

from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.native.library import kernel, pointer_to_array

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
    if kernel().decode_hex(lines, count, prefix, len(prefix), digits // 2, tag[0], pointer_to_array(rows)):
        return rows
    return None


def hash_rows(rows: Bytes, seed: int) -> Hashes:
    """XXH3 of 64 bits with a seed of each row. rows: 17 to 64 bytes wide."""
    hashes = np.empty(len(rows), np.uint64)
    kernel().hash_rows(pointer_to_array(np.ascontiguousarray(rows)), *rows.shape, seed, pointer_to_array(hashes))
    return hashes


def add_to_filter(words: Hashes, hashes: Hashes) -> None:
    """From now on these are maybes. One thread at a time."""
    kernel().add_to_filter(pointer_to_array(words), len(words), _contiguous(hashes), len(hashes))


def look_into_filter(words: Hashes, hashes: Hashes, maybe: npt.NDArray[np.bool_]) -> None:
    """Set `maybe` for each hash that may have been added."""
    found = pointer_to_array(maybe)
    kernel().look_into_filter(pointer_to_array(words), len(words), _contiguous(hashes), len(hashes), found)


def _contiguous(hashes: Hashes) -> Any:
    return pointer_to_array(np.ascontiguousarray(hashes))
