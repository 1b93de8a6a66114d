"""Many values at once: the stored forms and hashes of values.py as numpy arrays, one value per row.

Values of one length are handled together. The hash is XXH3_64 with a seed as the xxHash specification has it for inputs
of 17 to 64 bytes; addresses, hashes and base58 keys are among them. For other lengths, and for few values, the library
is as fast.
"""

import struct
from binascii import unhexlify
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.stores.redis import values as stored_values

Bytes: TypeAlias = npt.NDArray[np.uint8]
Hashes: TypeAlias = npt.NDArray[np.uint64]
Rows: TypeAlias = npt.NDArray[np.intp]

FEW = 200
_0X = [(0, b"0"), (1, b"x")]
_PREFIX = {42: _0X, 66: _0X, 64: []}
"""What hex of a length begins with: columns and their characters."""
_CASE, _UPPER = 0x60, 0x40
"""The bits that tell upper-case letters from lower-case ones and digits."""
_SHORTEST, _TWO_STEPS, _LONGEST = 17, 32, 64

_SECRET = struct.unpack(
    "<8Q",
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    ),
)
"""The first 64 bytes of XXH3's default secret."""
_PRIME = 0x9E3779B185EBCA87
_AVALANCHE = np.uint64(0x165667919E3779F9)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Stored forms of one width. rows: where each value stood in the sequence that was encoded."""

    rows: Rows
    stored: Bytes  # (values, width)

    @classmethod
    def of(cls, stored: Bytes) -> "Batch":
        """All values of a sequence, in its order."""
        return cls(np.arange(len(stored)), stored)

    def hashes(self, hash_key: int) -> Hashes:
        """The 64-bit keyed hash of each value; equal to values.hash_of."""
        count, width = self.stored.shape
        if count > FEW and _SHORTEST <= width <= _LONGEST:
            return _xxh3(self.stored, hash_key)
        return np.array(stored_values.hashes(self.forms(), hash_key), np.uint64)

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


def hashes(stored: Sequence[bytes], hash_key: int) -> Hashes:
    """The hash of each stored form, whatever their widths."""
    if len(stored) <= FEW:
        return np.array(stored_values.hashes(stored, hash_key), np.uint64)
    found = np.empty(len(stored), np.uint64)
    for batch in _by_width(list(stored), np.arange(len(stored))):
        found[batch.rows] = batch.hashes(hash_key)
    return found


def decode(stored: Sequence[bytes]) -> list[str]:
    """The values of stored forms."""
    joined = b"".join(stored)
    count, width, tag = len(stored), 21, stored_values.TAGS[42]
    if len(joined) != count * width or joined[::width] != tag * count or set(map(len, stored)) != {width}:
        return [stored_values.decode(one) for one in stored]
    digits = joined.hex()
    return ["0x" + digits[at : at + 40] for at in range(2, len(digits), 2 * width)]


def _of_one_length(values: Sequence[str], rows: Rows) -> Iterator[Batch]:
    stored = _hex(values)
    if stored is not None:
        yield Batch(rows, stored)
    elif len(values[0]) not in _PREFIX and (joined := "".join(values)).isascii():
        yield Batch(rows, _text(joined.encode(), len(values)))
    else:
        yield from _by_width([stored_values.encode(value) for value in values], rows)


def _hex(values: Sequence[str]) -> Bytes | None:
    """The stored forms of values that are all hex of one length; None when one of them is not."""
    lines, length, count = "\n".join(values), len(values[0]), len(values)
    prefix = _PREFIX.get(length)
    if prefix is None or len(lines) != (length + 1) * count - 1 or not lines.isascii():
        return None
    text = lines.encode() + b"\n"
    # Then each line is one value: a line break in a value would be a digit that is none.
    if any(text[at :: length + 1] != char * count for at, char in [*prefix, (length, b"\n")]):
        return None
    digits = np.empty((count, 2 + length - len(prefix)), np.uint8)
    digits[:, :2] = np.frombuffer(stored_values.TAGS[length].hex().encode(), np.uint8)
    digits[:, 2:] = np.frombuffer(text, np.uint8).reshape(count, -1)[:, len(prefix) : length]
    if ((digits & _CASE) == _UPPER).any():
        return None
    try:
        return np.frombuffer(unhexlify(digits.data), np.uint8).reshape(count, -1)
    except ValueError:
        return None


def _text(joined: bytes, count: int) -> Bytes:
    table = np.frombuffer(joined, np.uint8).reshape(count, -1)
    stored = np.empty((count, table.shape[1] + 1), np.uint8)
    stored[:, 0] = stored_values.TEXT[0]
    stored[:, 1:] = table
    return stored


def _by_width(stored: list[bytes], rows: Rows) -> Iterator[Batch]:
    widths = np.array([*map(len, stored)])
    for width in np.unique(widths):
        chosen = np.flatnonzero(widths == width)
        joined = b"".join(stored if len(chosen) == len(stored) else [stored[at] for at in chosen.tolist()])
        yield Batch(rows[chosen], np.frombuffer(joined, np.uint8).reshape(-1, width))


def _xxh3(stored: Bytes, hash_key: int) -> Hashes:
    count, width = stored.shape
    stored = np.ascontiguousarray(stored)
    keys = _keys(width, hash_key)
    words = np.empty((2 * len(keys), 2, count), np.uint64)
    for pair, (first, second, key) in enumerate(keys):
        columns: Hashes = np.ndarray((2, 2, count), "<u8", stored.data, first, (second - first, 8, width))
        np.bitwise_xor(columns, key, out=words[2 * pair : 2 * pair + 2])
    hashed: Hashes = np.add.reduce(_folded_product(words[:, 0], words[:, 1]))
    hashed += np.uint64(width * _PRIME % (1 << 64))
    hashed ^= hashed >> np.uint64(37)
    hashed *= _AVALANCHE
    hashed ^= hashed >> _HALF
    return hashed


@lru_cache(maxsize=1000)
def _keys(width: int, seed: int) -> list[tuple[int, int, Hashes]]:
    """Where twice 16 bytes are taken from, and what their halves are combined with: shape (2, 2, 1)."""
    steps = ((0, width - 16), (16, width - 32))[: 1 if width <= _TWO_STEPS else 2]
    all_bits = (1 << 64) - 1
    words = [(key - seed if at % 2 else key + seed) & all_bits for at, key in enumerate(_SECRET)]
    keys = np.array(words, np.uint64).reshape(-1, 2, 2, 1)
    return [(first, second, key) for (first, second), key in zip(steps, keys, strict=False)]


def _folded_product(a: Hashes, b: Hashes) -> Hashes:
    """The upper half of the 128-bit product xor its lower half. In place where it can be: this is half of a lookup."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low, middle = a_low * b_low, a_high * b_low
    cross = low >> _HALF
    cross += middle & _LOW
    a_low *= b_high
    cross += a_low
    a_high *= b_high
    middle >>= _HALF
    a_high += middle
    a_high += cross >> _HALF
    cross <<= _HALF
    low &= _LOW
    cross |= low
    cross ^= a_high
    return cross
