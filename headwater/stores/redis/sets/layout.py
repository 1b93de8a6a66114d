"""Keys of a set, and how its values are spread over buckets.

All keys of a set share one hash tag, so it lives in one slot of a cluster.

m        hash    gen bits count ver stamp hash_key enc kind next
GEN:b:N  set     the values of bucket N of generation GEN; before Redis 7.2 a hash with empty values (kind "hash")
GEN:nz   string  bitmap: which buckets of the generation hold a value
log      stream  entry `<ver>-0`: `a` or `r` with the little-endian 64-bit hashes of the values given, or `reset`;
                 and `s` with the stamp
staging  hash    generation being filled → time of its last sign of life, 0 when its buckets are to be removed

Each version has a random stamp: a server that lost its last writes counts the same versions again, with other stamps.

One key beside them, in a slot of its own: `{headwater}:replaced`, a sorted set of `kind:id` by the time of the last
replace, tells a sweep where to look.

Generations count up from a random number, by random steps: a set that is removed and made again, or of whose writes
the server lost the last ones, never meets its old buckets.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from headwater.model.dataset import SetId
from headwater.native import Uint64Array
from headwater.stores.redis.client import Client, Script, Word
from headwater.stores.redis.sets import encoded_values, value_encoding

BITS = 18
ENCODING = 1
COMPACT_SETS_SINCE = (7, 2)

REPLACED = "{headwater}:replaced"

Kind = Literal["set", "hash"]
T = TypeVar("T")

_WINDOW_BYTES = 1024  # short pages read little of the bitmap
_CREATE = Script.load("create")


def parts(items: list[T], size: int) -> Iterator[list[T]]:
    """Slices of `size` items, the last one shorter."""
    return (items[at : at + size] for at in range(0, len(items), size))


def new_stamp() -> str:
    """Tells a version from another one of the same number."""
    return secrets.token_hex(6)


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Stored forms and their hashes, in the order of listings."""

    hashes: Uint64Array
    stored: list[bytes]

    def __getitem__(self, rows: slice) -> "Placed":
        return Placed(self.hashes[rows], self.stored[rows])

    def __len__(self) -> int:
        return len(self.stored)

    def __add__(self, later: "Placed") -> "Placed":
        return Placed(np.concatenate([self.hashes, later.hashes]), self.stored + later.stored)


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

    def bucket_keys(self, hashes: Uint64Array) -> list[str]:
        """The key of each value's bucket, by its hash."""
        return self.buckets(self.numbers(hashes).tolist())

    def numbers(self, hashes: Uint64Array) -> npt.NDArray[np.intp]:
        """The number of each value's bucket, by its hash."""
        return (hashes >> np.uint64(value_encoding.HASH_BITS - self.bits)).astype(np.intp)

    def place(self, stored: Sequence[bytes]) -> Placed:
        """The stored forms in the order of listings."""
        hashes = encoded_values.hashes(stored, self.hash_key)
        order = np.argsort(hashes)
        return Placed(hashes[order], [stored[at] for at in order.tolist()])

    @property
    def contains_command(self) -> str:
        """The command that looks a value up in a bucket."""
        return "HEXISTS" if self.kind == "hash" else "SISMEMBER"

    @property
    def list_command(self) -> str:
        """The command that reads a bucket."""
        return "HKEYS" if self.kind == "hash" else "SMEMBERS"

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

    def dead(self, gen: int) -> Layout:
        """A generation that is only to be removed: nothing but its number matters for that."""
        return Layout(self.tag, gen, BITS, 0, "set")

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
