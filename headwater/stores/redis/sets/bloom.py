"""A blocked, scalable Bloom filter over 64-bit hashes.

Negative answers are certain; others must be verified. All bits of a value are in one 64-bit word, so that a test reads
memory once. With 16 bits per value the false positive rate is 0.42 %.

A filter grows by layers (Almeida et al., "Scalable Bloom Filters", 2007). When a layer is full, a new one, which is at
least as large as all earlier layers together, takes further values. So a growing set need not be read again. The false
positive rates of the layers add up.

No library is used, because the filter takes arrays of hashes that exist already, a batch of values at once.
"""

import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from headwater.native import Uint64Array, bloom_add, bloom_contains

BITS_PER_VALUE = 16
_MIN_ADDED_CAPACITY = 1_000
_FAST_GROWTH_BELOW = 1_000_000
_FAST_GROWTH = 4
"""Below a capacity of _FAST_GROWTH_BELOW, a new layer is this many times as large as all earlier layers together."""
_WORD_BITS = 64


class BloomFilter:
    """A Bloom filter of hashes. Hashes can be added, but not removed. Thread-safe."""

    def __init__(self, capacity: int, may_grow: Callable[[int], bool] = lambda _: True) -> None:
        """Create an empty filter.

        Args:
            capacity: The number of hashes that the first layer is made for.
            may_grow: Returns whether there is room for another layer of that many bytes. If there is none, the last
                layer is filled beyond its capacity, and the false positive rate rises.
        """
        self._layers = [_Layer(capacity)]
        self._may_grow = may_grow
        self._adding = threading.Lock()

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self._layers)

    @property
    def size_bytes(self) -> int:
        """The memory of the filter in bytes."""
        return sum(layer.words.nbytes for layer in self._layers)

    @property
    def is_over_capacity(self) -> bool:
        """Whether the last layer holds more than twice the hashes that it is made for.

        This happens when there was no room for another layer.
        """
        return self._layers[-1].remaining < -self._layers[-1].capacity

    def add(self, hashes: Uint64Array) -> None:
        """Add hashes."""
        with self._adding:
            new = hashes[~self.may_contain(hashes)]
            while len(new):
                layer = self._layer_to_fill()
                count = layer.remaining if layer.remaining > 0 else len(new)
                layer.add(new[:count])
                new = new[count:]

    def _layer_to_fill(self) -> "_Layer":
        """Return the last layer, after adding one if it is full and there is memory for another."""
        if self._layers[-1].remaining <= 0:
            total = sum(layer.capacity for layer in self._layers)
            capacity = max(_MIN_ADDED_CAPACITY, total * (_FAST_GROWTH if total < _FAST_GROWTH_BELOW else 1))
            if self._may_grow(size_bytes(capacity)):
                self._layers.append(_Layer(capacity))
        return self._layers[-1]

    def may_contain(self, hashes: Uint64Array) -> npt.NDArray[np.bool_]:
        """Return for each hash whether it may have been added; False is certain."""
        are_contained = np.zeros(len(hashes), np.bool_)
        for layer in self._layers:
            bloom_contains(layer.words, hashes, are_contained)
        return are_contained


class _Layer:
    """A layer of a filter.

    Attributes:
        capacity: The number of hashes that the layer is made for.
        remaining: How many more hashes the layer is made for; negative when it is over its capacity.
        words: The bits of the layer.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.remaining = capacity
        self.words = np.zeros(size_bytes(capacity) // 8, np.uint64)

    def add(self, hashes: Uint64Array) -> None:
        bloom_add(self.words, hashes)
        self.remaining -= len(hashes)


def size_bytes(capacity: int) -> int:
    """Return the memory in bytes of a layer for that many hashes."""
    return max(1, capacity * BITS_PER_VALUE // _WORD_BITS) * 8
