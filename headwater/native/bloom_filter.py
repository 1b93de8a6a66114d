"""Adds hashes to a blocked Bloom filter and looks them up. All arguments are NumPy arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.native.ffi import native_library, pointer_to_array
from headwater.native.value_hashing import Uint64Array


def bloom_add(words: Uint64Array, hashes: Uint64Array) -> None:
    """Add hashes to the Bloom filter in `words`. Not thread-safe."""
    native_library().bloom_add(pointer_to_array(words), len(words), _contiguous(hashes), len(hashes))


def bloom_contains(words: Uint64Array, hashes: Uint64Array, may_contain: npt.NDArray[np.bool_]) -> None:
    """Set `may_contain[i]` for each hash i that the Bloom filter in `words` may contain.

    Other entries keep their values, so that a caller can look the hashes up in several filters, one after the other.
    """
    result = pointer_to_array(may_contain)
    native_library().bloom_contains(pointer_to_array(words), len(words), _contiguous(hashes), len(hashes), result)


def _contiguous(hashes: Uint64Array) -> Any:
    return pointer_to_array(np.ascontiguousarray(hashes))
