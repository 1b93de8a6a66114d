"""Commands that fill the buckets of a generation that nobody reads, packed as the server reads them (RESP)."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from headwater.native import Uint8Array, Uint64Array
from headwater.stores.redis.client import Packed
from headwater.stores.redis.sets.layout import Layout

BUCKETS_PER_PART = 8_192

_HEAD = b"*%d\r\n$4\r\n%b\r\n$%d\r\n%b\r\n"
_EMPTY_VALUE = b"$0\r\n\r\n"


def commands(layout: Layout, stored: Uint8Array, hashes: Uint64Array) -> Iterator[Packed]:
    """One command per bucket, in parts."""
    order = np.argsort(hashes)
    numbers = layout.numbers(hashes[order])
    words = _words(layout, stored[order])
    width = words.shape[1]
    packed = memoryview(words.tobytes())
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    firsts = numbers[edges[:-1]].tolist()
    command, words_per_value = (b"HSET", 2) if layout.kind == "hash" else (b"SADD", 1)
    prefix = layout.bucket_prefix.encode()
    for at in range(0, len(firsts), BUCKETS_PER_PART):
        part: list[bytes | memoryview] = []
        ends = pairwise(edges[at : at + BUCKETS_PER_PART + 1])
        for number, (start, end) in zip(firsts[at : at + BUCKETS_PER_PART], ends, strict=True):
            key = b"%b%d" % (prefix, number)
            part.append(_HEAD % (2 + (end - start) * words_per_value, command, len(key), key))
            part.append(packed[start * width : end * width])
        yield b"".join(part), len(part) // 2


def _words(layout: Layout, stored: Uint8Array) -> Uint8Array:
    """The words of the values, a row per value."""
    count, width = stored.shape
    before, after = b"$%d\r\n" % width, b"\r\n" + (_EMPTY_VALUE if layout.kind == "hash" else b"")
    words = np.empty((count, len(before) + width + len(after)), np.uint8)
    words[:, : len(before)] = np.frombuffer(before, np.uint8)
    words[:, len(before) : len(before) + width] = stored
    words[:, len(before) + width :] = np.frombuffer(after, np.uint8)
    return words
