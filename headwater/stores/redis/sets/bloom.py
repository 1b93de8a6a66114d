"""A Bloom filter over hashes: "no" is certain, "maybe" has to be asked.

All bits of a value lie in one 64-bit word, so that a look at it is one at memory. With 16 bits per value 0.42 % of
other values are maybes.

A filter grows by layers (Almeida et al., "Scalable Bloom Filters", 2007): when one is full, the next, as large as all
before it or larger, takes what comes. So nothing is read again while a set grows. A value is a maybe when it is one in
any layer: 0.42 % of other values per layer.
"""

import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from headwater.native import Uint64Array, bloom_add, bloom_contains

BITS_PER_VALUE = 16
_SMALL, _LARGE = 1_000, 1_000_000
_FAST_GROWTH = 4
_WORD_BITS = 64


class Bloom:
    """Values can be added, not removed. Thread-safe.

    may_grow: whether there is room for a layer of so many bytes; without, the last one is filled beyond its capacity.
    """

    def __init__(self, capacity: int, may_grow: Callable[[int], bool] = lambda _: True) -> None:
        self._layers = [_Layer(capacity)]
        self._may_grow = may_grow
        self._adding = threading.Lock()

    @property
    def layers(self) -> int:
        """How many there are."""
        return len(self._layers)

    @property
    def size_bytes(self) -> int:
        """What it takes."""
        return sum(layer.words.nbytes for layer in self._layers)

    @property
    def overfull(self) -> bool:
        """True when more values than usual are maybes: there was no room to grow."""
        return self._layers[-1].left < -self._layers[-1].capacity

    def add(self, hashes: Uint64Array) -> None:
        """From now on these are maybes."""
        with self._adding:
            new = hashes[~self.maybe(hashes)]
            while len(new):
                layer = self._layer_with_room()
                count = layer.left if layer.left > 0 else len(new)
                layer.add(new[:count])
                new = new[count:]

    def _layer_with_room(self) -> "_Layer":
        if self._layers[-1].left <= 0:
            total = sum(layer.capacity for layer in self._layers)
            capacity = max(_SMALL, total * (_FAST_GROWTH if total < _LARGE else 1))
            if self._may_grow(size_bytes(capacity)):
                self._layers.append(_Layer(capacity))
        return self._layers[-1]

    def maybe(self, hashes: Uint64Array) -> npt.NDArray[np.bool_]:
        """False for each hash that was certainly not added."""
        found = np.zeros(len(hashes), np.bool_)
        for layer in self._layers:
            bloom_contains(layer.words, hashes, found)
        return found


class _Layer:
    """A part of a filter. left: how many values more it is meant for."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.left = capacity
        self.words = np.zeros(size_bytes(capacity) // 8, np.uint64)

    def add(self, hashes: Uint64Array) -> None:
        bloom_add(self.words, hashes)
        self.left -= len(hashes)


def size_bytes(capacity: int) -> int:
    """What a filter for that many values takes."""
    return max(1, capacity * BITS_PER_VALUE // _WORD_BITS) * 8
