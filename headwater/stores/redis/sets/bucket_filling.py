"""Encodes the commands (RESP) that fill the buckets of a staged generation.

NumPy encodes many values at once.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from headwater.native import Uint8Array, Uint64Array
from headwater.stores.redis.connection import EncodedCommands
from headwater.stores.redis.sets.layout import SetGeneration

BUCKETS_PER_PART = 8_192

_HEAD = b"*%d\r\n$4\r\n%b\r\n$%d\r\n%b\r\n"
_EMPTY_VALUE = b"$0\r\n\r\n"


def commands(generation: SetGeneration, encoded: Uint8Array, hashes: Uint64Array) -> Iterator[EncodedCommands]:
    """Yield the commands, one per bucket, in parts of at most BUCKETS_PER_PART.

    Args:
        generation: The staged generation.
        encoded: Encoded values of one length, a row per value.
        hashes: The hash of each value.
    """
    order = np.argsort(hashes)
    numbers = generation.bucket_numbers(hashes[order])
    arguments = _resp_arguments(generation, encoded[order])
    width = arguments.shape[1]
    data = memoryview(arguments.tobytes())
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    distinct_numbers = numbers[edges[:-1]].tolist()
    command, arguments_per_value = (b"HSET", 2) if generation.kind == "hash" else (b"SADD", 1)
    prefix = generation.bucket_prefix.encode()
    for first in range(0, len(distinct_numbers), BUCKETS_PER_PART):
        part: list[bytes | memoryview] = []
        slices = pairwise(edges[first : first + BUCKETS_PER_PART + 1])
        for number, (start, end) in zip(distinct_numbers[first : first + BUCKETS_PER_PART], slices, strict=True):
            key = b"%b%d" % (prefix, number)
            part.append(_HEAD % (2 + (end - start) * arguments_per_value, command, len(key), key))
            part.append(data[start * width : end * width])
        yield b"".join(part), len(part) // 2


def _resp_arguments(generation: SetGeneration, encoded: Uint8Array) -> Uint8Array:
    """Return the arguments of the commands for the values, a row per value."""
    count, width = encoded.shape
    before, after = b"$%d\r\n" % width, b"\r\n" + (_EMPTY_VALUE if generation.kind == "hash" else b"")
    arguments = np.empty((count, len(before) + width + len(after)), np.uint8)
    arguments[:, : len(before)] = np.frombuffer(before, np.uint8)
    arguments[:, len(before) : len(before) + width] = encoded
    arguments[:, len(before) + width :] = np.frombuffer(after, np.uint8)
    return arguments
