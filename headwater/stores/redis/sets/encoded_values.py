"""Many values at once: the stored forms and hashes of values.py as numpy arrays, one value per row.

Values of one length are handled together. Those of 17 to 64 bytes, addresses, hashes and base58 keys among them, are
hashed all at once, others by the library.
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

FEW = 200
_PREFIX = {42: b"0x", 66: b"0x", 64: b""}
"""What hex of a length begins with."""
_SHORTEST, _LONGEST = 17, 64


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Stored forms of one width. rows: where each value stood in the sequence that was encoded."""

    rows: Rows
    stored: Uint8Array  # (values, width)

    @classmethod
    def of(cls, stored: Uint8Array) -> "Batch":
        """All values of a sequence, in its order."""
        return cls(np.arange(len(stored)), stored)

    def hashes(self, hash_key: int) -> Uint64Array:
        """The 64-bit keyed hash of each value; equal to values.hash_of."""
        if _SHORTEST <= self.stored.shape[1] <= _LONGEST:
            return hash_rows(self.stored, hash_key)
        return np.array(value_encoding.hashes(self.forms(), hash_key), np.uint64)

    def forms(self) -> list[bytes]:
        """The stored forms one by one."""
        width = self.stored.shape[1]
        joined = self.stored.tobytes()
        return [joined[at : at + width] for at in range(0, len(joined), width)]


def encode(values: Sequence[str]) -> list[Batch]:
    """The stored forms of normalised values, one batch per width and way of encoding."""
    if not values:
        return []
    stored = _hex(values)
    if stored is not None:
        return [Batch.of(stored)]
    rows: defaultdict[int, list[int]] = defaultdict(list)
    for row, value in enumerate(values):
        rows[len(value)].append(row)
    return [batch for some in rows.values() for batch in _of_one_length([values[row] for row in some], np.array(some))]


def encode_all(values: Sequence[str]) -> list[bytes]:
    """The stored form of each value, in order."""
    batches = encode(values)
    if len(batches) == 1:
        return batches[0].forms()
    found = [b""] * len(values)
    for batch in batches:
        for row, stored in zip(batch.rows.tolist(), batch.forms(), strict=True):
            found[row] = stored
    return found


def hashes(stored: Sequence[bytes], hash_key: int) -> Uint64Array:
    """The hash of each stored form, whatever their widths."""
    if len(stored) <= FEW:
        return np.array(value_encoding.hashes(stored, hash_key), np.uint64)
    found = np.empty(len(stored), np.uint64)
    for batch in _by_width(list(stored), np.arange(len(stored))):
        found[batch.rows] = batch.hashes(hash_key)
    return found


def decode(stored: Sequence[bytes]) -> list[str]:
    """The values of stored forms."""
    joined = b"".join(stored)
    count, width, tag = len(stored), 21, value_encoding.TAGS[42]
    if len(joined) != count * width or joined[::width] != tag * count or set(map(len, stored)) != {width}:
        return [value_encoding.decode(one) for one in stored]
    digits = joined.hex()
    return ["0x" + digits[at : at + 40] for at in range(2, len(digits), 2 * width)]


def _of_one_length(values: Sequence[str], rows: Rows) -> Iterator[Batch]:
    stored = _hex(values)
    if stored is not None:
        yield Batch(rows, stored)
    elif len(values[0]) not in _PREFIX and (joined := "".join(values)).isascii():
        yield Batch(rows, _text(joined.encode(), len(values)))
    else:
        yield from _by_width([value_encoding.encode(value) for value in values], rows)


def _hex(values: Sequence[str]) -> Uint8Array | None:
    """The stored forms of values that are all hex of one length; None when one of them is not."""
    lines, length, count = "\n".join(values), len(values[0]), len(values)
    prefix = _PREFIX.get(length)
    if prefix is None or len(lines) != (length + 1) * count - 1 or not lines.isascii():
        return None
    # Then each line is one value: a line break in a value would be a digit that is none.
    return decode_hex(lines.encode() + b"\n", count, prefix, value_encoding.TAGS[length])


def _text(joined: bytes, count: int) -> Uint8Array:
    table = np.frombuffer(joined, np.uint8).reshape(count, -1)
    stored = np.empty((count, table.shape[1] + 1), np.uint8)
    stored[:, 0] = value_encoding.TEXT[0]
    stored[:, 1:] = table
    return stored


def _by_width(stored: list[bytes], rows: Rows) -> Iterator[Batch]:
    widths = np.array([*map(len, stored)])
    for width in np.unique(widths):
        chosen = np.flatnonzero(widths == width)
        joined = b"".join(stored if len(chosen) == len(stored) else [stored[at] for at in chosen.tolist()])
        yield Batch(rows[chosen], np.frombuffer(joined, np.uint8).reshape(-1, width))
