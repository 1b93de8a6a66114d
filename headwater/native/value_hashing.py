"""Decodes and hashes the values of sets. The results are NumPy arrays."""

import numpy as np
import numpy.typing as npt

from headwater.native.ffi import native_library, pointer_to_array

Uint8Array = npt.NDArray[np.uint8]
Uint64Array = npt.NDArray[np.uint64]


def decode_hex(lines: bytes, count: int, prefix: bytes, tag: bytes) -> Uint8Array | None:
    """Decode lines of the form prefix + lower-case hex + newline, all of the same length.

    Each row of the result is the tag byte followed by the decoded bytes. Returns None when a line has another form.
    """
    digits = len(lines) // count - 1 - len(prefix)
    if digits % 2 or digits <= 0 or len(lines) % count:
        return None
    rows = np.empty((count, 1 + digits // 2), np.uint8)
    if native_library().decode_hex(lines, count, prefix, len(prefix), digits // 2, tag[0], pointer_to_array(rows)):
        return rows
    return None


def hash_rows(rows: Uint8Array, seed: int) -> Uint64Array:
    """Return the seeded 64-bit XXH3 hash of each row. A row has 17 to 64 bytes."""
    hashes, contiguous = np.empty(len(rows), np.uint64), pointer_to_array(np.ascontiguousarray(rows))
    native_library().hash_rows(contiguous, *rows.shape, seed, pointer_to_array(hashes))
    return hashes
