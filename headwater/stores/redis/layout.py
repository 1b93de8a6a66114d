"""Keys of a set, and how its values are spread over buckets.

All keys of a set share one hash tag, so it lives in one slot of a cluster.

m        hash    gen bits count ver hash_key enc kind next
GEN:b:N  set     the values of bucket N of generation GEN; before Redis 7.2 a hash with empty values (kind "hash")
GEN:nz   string  bitmap: which buckets of the generation hold a value
log      stream  entry `<ver>-0`: `a` or `r` with the little-endian 64-bit hashes of the values given, or `reset`
staging  hash    generation being filled → time of its last sign of life, 0 when its buckets are to be removed

One key beside them, in a slot of its own: `{headwater}:replaced`, a sorted set of `kind:id` by the time of the last
replace, tells a sweep where to look.

Generations count up from a random number: a set that is removed and made again never meets its old buckets.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from headwater.model.dataset import SetId
from headwater.stores.redis import values
from headwater.stores.redis.client import Client, Script, Word

BITS = 18
ENCODING = 1
COMPACT_SETS_SINCE = (7, 2)

REPLACED = "{headwater}:replaced"

Kind = Literal["set", "hash"]
Placed = tuple[int, bytes]  # hash and stored form; sorts in the order of listings

T = TypeVar("T")

_WINDOW_BYTES = 1024  # short pages read little of the bitmap
_CREATE = Script.load("create")


def parts(items: list[T], size: int) -> Iterator[list[T]]:
    """Slices of `size` items, the last one shorter."""
    return (items[at : at + size] for at in range(0, len(items), size))


@dataclass(frozen=True, slots=True)
class Layout:
    """One generation of one set. bits, hash_key and kind never change while the set exists."""

    tag: str
    gen: int
    bits: int
    hash_key: int
    kind: Kind

    @property
    def nz(self) -> str:
        """The bitmap of buckets that are not empty."""
        return f"{self.tag}:{self.gen}:nz"

    @property
    def bucket_prefix(self) -> str:
        """What the keys of buckets begin with; the bucket's number follows."""
        return f"{self.tag}:{self.gen}:b:"

    def buckets(self, numbers: Iterable[int]) -> list[str]:
        """The keys of buckets."""
        prefix = self.bucket_prefix
        return [f"{prefix}{number}" for number in numbers]

    def bucket_keys(self, hashes: Iterable[int]) -> list[str]:
        """The key of each value's bucket, by its hash."""
        shift = values.HASH_BITS - self.bits
        return self.buckets([hashed >> shift for hashed in hashes])

    def place(self, stored: Sequence[bytes]) -> list[Placed]:
        """The stored forms in the order of listings."""
        return sorted(zip(values.hashes(stored, self.hash_key), stored, strict=True))

    def by_bucket(self, placed: Sequence[Placed]) -> list[tuple[int, list[bytes]]]:
        """Bucket numbers and their values, from values in the order of listings."""
        shift = values.HASH_BITS - self.bits
        groups: list[tuple[int, list[bytes]]] = []
        last = -1
        for hashed, stored in placed:
            number = hashed >> shift
            if number == last:
                groups[-1][1].append(stored)
            else:
                groups.append((number, [stored]))
                last = number
        return groups

    def nonempty(self, bitmap: bytes, first: int) -> Iterator[int]:
        """The numbers from `first` on whose bit is set, in a bitmap that begins at the byte of `first`."""
        for at in range(0, len(bitmap), _WINDOW_BYTES):
            window = np.unpackbits(np.frombuffer(bitmap[at : at + _WINDOW_BYTES], np.uint8))
            numbers = np.flatnonzero(window) + (first & ~7) + 8 * at
            yield from numbers[numbers >= first].tolist()


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that all generations of a set share."""

    member: str
    """How the set is named in REPLACED."""

    @classmethod
    def of(cls, target: SetId) -> "Keys":
        """The keys of a set."""
        return cls(f"{target.kind}:{target.id}")

    @property
    def tag(self) -> str:
        """What all keys begin with."""
        return f"{{{self.member}}}"

    @property
    def m(self) -> str:
        """The set's description."""
        return f"{self.tag}:m"

    @property
    def log(self) -> str:
        """What was written, for readers that keep a copy."""
        return f"{self.tag}:log"

    @property
    def staging(self) -> str:
        """Generations that are neither current nor removed."""
        return f"{self.tag}:staging"

    def read(self, client: Client) -> Layout | None:
        """The set's layout; None when there is no such set."""
        return self._layout(client.call("HMGET", self.m, "gen", "bits", "hash_key", "kind"))

    def create(self, client: Client, kind: Kind) -> Layout:
        """Make the set unless it exists."""
        args: list[Word] = [1 + secrets.randbits(32), BITS, secrets.randbits(64), ENCODING, kind]
        layout = self._layout(client.run(_CREATE, [self.m], args))
        assert layout is not None
        return layout

    def _layout(self, fields: Sequence[bytes | None]) -> Layout | None:
        gen, bits, hash_key, kind = fields
        if gen is None or bits is None or hash_key is None or kind is None:
            return None
        return Layout(self.tag, int(gen), int(bits), int(hash_key), "hash" if kind == b"hash" else "set")
