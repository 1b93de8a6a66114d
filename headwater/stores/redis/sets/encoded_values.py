"""Encodes, hashes and decodes many values at once, as NumPy arrays with a value per row.

See value_encoding.py. Values of one length are handled together. Encoded values of 17 to 64 bytes (such as addresses,
hashes and base58 keys) are hashed by native code, a whole array at a time; others are hashed one by one by the xxhash
library.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.native import Uint8Array, Uint64Array, decode_hex, hash_rows
from headwater.stores.redis.sets import value_encoding

Rows: TypeAlias = npt.NDArray[np.intp]

SMALL_BATCH = 200  # fewer values are hashed faster one by one
_PREFIX = {42: b"0x", 66: b"0x", 64: b""}
"""The prefix of a hex value, by the length of its text."""
_SHORTEST, _LONGEST = 17, 64


@dataclass(frozen=True, slots=True, eq=False)
class EncodedValues:
    """Encoded values of one length.

    Attributes:
        rows: The index of each value in the sequence that was encoded.
        encoded: The encoded values, an array of shape (number of values, length).
    """

    rows: Rows
    encoded: Uint8Array

    @classmethod
    def of(cls, encoded: Uint8Array) -> "EncodedValues":
        """Return the encoded values of a sequence whose values have one length.

        Row i is value i of the sequence.
        """
        return cls(np.arange(len(encoded)), encoded)

    def hashes(self, hash_seed: int) -> Uint64Array:
        """Return the 64-bit seeded hash of each value, as value_encoding.hashes returns it."""
        if _SHORTEST <= self.encoded.shape[1] <= _LONGEST:
            return hash_rows(self.encoded, hash_seed)
        return np.array(value_encoding.hashes(self.to_list(), hash_seed), np.uint64)

    def to_list(self) -> list[bytes]:
        """Return the encoded values as a list."""
        width = self.encoded.shape[1]
        joined = self.encoded.tobytes()
        return [joined[start : start + width] for start in range(0, len(joined), width)]


def encode(values: Sequence[str]) -> list[EncodedValues]:
    """Encode normalised values. The result has one item per length and kind of encoding."""
    if not values:
        return []
    encoded = _encode_hex(values)
    if encoded is not None:
        return [EncodedValues.of(encoded)]
    rows_by_length: defaultdict[int, list[int]] = defaultdict(list)
    for row, value in enumerate(values):
        rows_by_length[len(value)].append(row)
    return [
        group
        for rows in rows_by_length.values()
        for group in _encode_of_one_length([values[row] for row in rows], np.array(rows))
    ]


def encode_all(values: Sequence[str]) -> list[bytes]:
    """Encode values, and return the encoding of each in order."""
    groups = encode(values)
    if len(groups) == 1:
        return groups[0].to_list()
    encodings = [b""] * len(values)
    for group in groups:
        for row, encoded in zip(group.rows.tolist(), group.to_list(), strict=True):
            encodings[row] = encoded
    return encodings


def hashes(encoded: Sequence[bytes], hash_seed: int) -> Uint64Array:
    """Return the hash of each encoded value. The lengths may differ."""
    if len(encoded) <= SMALL_BATCH:
        return np.array(value_encoding.hashes(encoded, hash_seed), np.uint64)
    all_hashes = np.empty(len(encoded), np.uint64)
    for group in _by_length(list(encoded), np.arange(len(encoded))):
        all_hashes[group.rows] = group.hashes(hash_seed)
    return all_hashes


def decode(encoded: Sequence[bytes]) -> list[str]:
    """Decode values. Addresses of 20 bytes are decoded all at once."""
    joined = b"".join(encoded)
    count, width, tag = len(encoded), 21, value_encoding.TAGS[42]
    if len(joined) != count * width or joined[::width] != tag * count or set(map(len, encoded)) != {width}:
        return [value_encoding.decode(value) for value in encoded]
    digits = joined.hex()
    return ["0x" + digits[start : start + 40] for start in range(2, len(digits), 2 * width)]


def _encode_of_one_length(values: Sequence[str], rows: Rows) -> Iterator[EncodedValues]:
    encoded = _encode_hex(values)
    if encoded is not None:
        yield EncodedValues(rows, encoded)
    elif len(values[0]) not in _PREFIX and (joined := "".join(values)).isascii():
        yield EncodedValues(rows, _encode_ascii(joined.encode(), len(values)))
    else:
        yield from _by_length([value_encoding.encode(value) for value in values], rows)


def _encode_hex(values: Sequence[str]) -> Uint8Array | None:
    """Encode values that are all lower-case hex of one length.

    Returns None when any value is something else.
    """
    lines, length, count = "\n".join(values), len(values[0]), len(values)
    prefix = _PREFIX.get(length)
    if prefix is None or len(lines) != (length + 1) * count - 1 or not lines.isascii():
        return None
    # The total length matches, so each line is one value: decode_hex rejects a line break inside a value.
    return decode_hex(lines.encode() + b"\n", count, prefix, value_encoding.TAGS[length])


def _encode_ascii(joined: bytes, count: int) -> Uint8Array:
    """Encode ASCII texts of one length, which are joined without separators."""
    table = np.frombuffer(joined, np.uint8).reshape(count, -1)
    encoded = np.empty((count, table.shape[1] + 1), np.uint8)
    encoded[:, 0] = value_encoding.TEXT[0]
    encoded[:, 1:] = table
    return encoded


def _by_length(encoded: list[bytes], rows: Rows) -> Iterator[EncodedValues]:
    """Group encoded values by their length. rows: The index of each value."""
    lengths = np.array([*map(len, encoded)])
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        joined = b"".join(encoded if len(chosen) == len(encoded) else [encoded[row] for row in chosen.tolist()])
        yield EncodedValues(rows[chosen], np.frombuffer(joined, np.uint8).reshape(-1, length))
