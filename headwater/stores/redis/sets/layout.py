"""The keys of a set, and the distribution of its values over buckets.

A generation is one complete copy of the values of a set. A replacement fills the buckets of a new generation, which is
staged until the replacement makes it the current one.

All keys of a set begin with the same hash tag, so they are in one slot of a cluster. After the tag follow:

m        hash    the metadata, see below
GEN:b:N  set     the encoded values of bucket N of generation GEN; before Redis 7.2 a hash whose fields are the encoded
                 values, which takes less memory in these versions (kind "hash")
GEN:nz   string  bitmap of the buckets of the generation that are not empty
log      stream  the changes: entry `<ver>-0` has the field `a` (added), `r` (removed) or `reset` (replaced), with the
                 little-endian 64-bit hashes of the given values, and the field `s` with the stamp
staging  hash    the generations that are neither current nor deleted → the time of the writer's last heartbeat in
                 seconds since the epoch; 0 marks a dead generation, whose buckets are to be deleted

Fields of the metadata:

gen       the number of the current generation
next      the highest generation number so far
bits      log2 of the number of buckets
count     the number of values
ver       the version, which each change raises by 1
digest    the version, a space, and the sum of which the digest is made; see set_digest.py
stamp     a random text for each version, because a server that lost its last writes assigns the same versions again
hash_key  the seed of the hash function that distributes the values over the buckets
enc       the version of the encoding of values
kind      the type of the buckets: "set" or "hash"

One more key, in a slot of its own, is `{headwater}:replaced`: a sorted set of the names (`fs:ID` and `ds:ID`) of the
sets that were replaced or dropped. The score is the time of the last replacement or drop. A sweep looks for the
leftovers of these sets.

Generation numbers start at a random number and grow by random steps. So neither a set that is removed and created
again, nor a server that lost writes, uses the buckets of an old generation.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
import numpy.typing as npt

from headwater.model.value_sets import SetId
from headwater.native import Uint64Array
from headwater.stores.redis.chunks import chunks
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument
from headwater.stores.redis.sets import encoded_values, value_encoding

BITS = 18
ENCODING = 1
LISTPACK_SETS_SINCE = (7, 2)
"""From this version of Redis on, small sets take as little memory as small hashes."""

SETS_TO_SWEEP = "{headwater}:replaced"
"""The key of the list of the sets that were replaced or dropped."""

BucketKind = Literal["set", "hash"]

BUCKETS_PER_PART = 1_000
"""How many buckets `read_buckets` reads at once: 40,000 values of a set of 10 million."""
_WINDOW_BYTES = 1024  # so that a short page unpacks only a small part of the bitmap
_CREATE = Script.load("create_set")


def new_stamp() -> str:
    """Return a random stamp, which tells a version from another version with the same number."""
    return secrets.token_hex(6)


@dataclass(frozen=True, slots=True, eq=False)
class SortedValues:
    """Encoded values and their hashes, sorted by hash, which is the order of listings."""

    hashes: Uint64Array
    encoded: list[bytes]

    @property
    def positions(self) -> Uint64Array:
        """The positions of the values in listings: 0 to 2^53 − 1."""
        return self.hashes >> np.uint64(value_encoding.HASH_BITS - value_encoding.POSITION_BITS)

    def __getitem__(self, rows: slice) -> "SortedValues":
        return SortedValues(self.hashes[rows], self.encoded[rows])

    def __len__(self) -> int:
        return len(self.encoded)

    def __add__(self, later: "SortedValues") -> "SortedValues":
        return SortedValues(np.concatenate([self.hashes, later.hashes]), self.encoded + later.encoded)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGeneration:
    """One generation of one set.

    Attributes:
        tag: The hash tag of the set's keys.
        number: The number of the generation.
        bits: log2 of the number of buckets. `bits`, `hash_seed` and `kind` never change while the set exists.
        hash_seed: The seed of the hash function that distributes the values.
        kind: The type of the buckets.
    """

    tag: str
    number: int
    bits: int
    hash_seed: int
    kind: BucketKind

    @property
    def nonempty_bitmap(self) -> str:
        """The key of the bitmap of buckets that are not empty."""
        return f"{self.tag}:{self.number}:nz"

    @property
    def bucket_prefix(self) -> str:
        """The key of a bucket without the number of the bucket, which follows."""
        return f"{self.tag}:{self.number}:b:"

    def bucket_keys(self, numbers: Iterable[int]) -> list[str]:
        """Return the keys of the buckets with these numbers."""
        prefix = self.bucket_prefix
        return [f"{prefix}{number}" for number in numbers]

    def bucket_keys_of_values(self, hashes: Uint64Array) -> list[str]:
        """Return the key of the bucket of each value. hashes: The hashes of the values."""
        return self.bucket_keys(self.bucket_numbers(hashes).tolist())

    def bucket_numbers(self, hashes: Uint64Array) -> npt.NDArray[np.intp]:
        """Return the number of the bucket of each value, which is the upper bits of its hash.

        hashes: The hashes of the values.
        """
        return (hashes >> np.uint64(value_encoding.HASH_BITS - self.bits)).astype(np.intp)

    def sort(self, encoded: Sequence[bytes]) -> SortedValues:
        """Sort encoded values by hash."""
        hashes = encoded_values.hashes(encoded, self.hash_seed)
        order = np.argsort(hashes)
        return SortedValues(hashes[order], [encoded[row] for row in order.tolist()])

    @property
    def contains_command(self) -> str:
        """The command that looks up a value in a bucket."""
        return "HEXISTS" if self.kind == "hash" else "SISMEMBER"

    @property
    def list_command(self) -> str:
        """The command that reads all values of a bucket."""
        return "HKEYS" if self.kind == "hash" else "SMEMBERS"

    def read_buckets(self, client: Client, numbers: Iterable[int]) -> Iterator[list[str]]:
        """Yield the values of buckets, in parts of BUCKETS_PER_PART buckets.

        Args:
            client: The client of the server.
            numbers: The numbers of the buckets.
        """
        for part in chunks(numbers, BUCKETS_PER_PART):
            lists = client.pipeline([(self.list_command, key) for key in self.bucket_keys(part)])
            yield encoded_values.decode(list(chain.from_iterable(lists)))

    def nonempty(self, bitmap: bytes, first: int) -> Iterator[int]:
        """Yield the numbers of the buckets from `first` on that are not empty.

        Args:
            bitmap: The bitmap of buckets that are not empty, from the byte that contains the bit of `first`.
            first: The number of a bucket.
        """
        for start in range(0, len(bitmap), _WINDOW_BYTES):
            window = np.unpackbits(np.frombuffer(bitmap[start : start + _WINDOW_BYTES], np.uint8))
            numbers = np.flatnonzero(window) + (first & ~7) + 8 * start
            yield from numbers[numbers >= first].tolist()


@dataclass(frozen=True, slots=True)
class SetKeys:
    """The keys that all generations of a set share.

    Attributes:
        name: The name of the set in SETS_TO_SWEEP: its kind and id.
    """

    name: str

    @classmethod
    def of(cls, set_id: SetId) -> "SetKeys":
        """Return the keys of a set."""
        return cls(set_id.name)

    @property
    def tag(self) -> str:
        """The hash tag with which all keys of the set begin."""
        return f"{{{self.name}}}"

    @property
    def metadata(self) -> str:
        """The key of the metadata."""
        return f"{self.tag}:m"

    @property
    def log(self) -> str:
        """The key of the log of changes, from which workers update their Bloom filters."""
        return f"{self.tag}:log"

    @property
    def staging(self) -> str:
        """The key of the hash of generations that are neither current nor deleted."""
        return f"{self.tag}:staging"

    def read_generation(self, client: Client) -> SetGeneration | None:
        """Read the current generation; return None when the set does not exist."""
        return self._generation(client.call("HMGET", self.metadata, "gen", "bits", "hash_key", "kind"))

    def dead_generation(self, gen: int) -> SetGeneration:
        """Return a generation whose buckets are to be deleted. Only its tag and number are used."""
        return SetGeneration(tag=self.tag, number=gen, bits=BITS, hash_seed=0, kind="set")

    def create_set(self, client: Client, kind: BucketKind) -> SetGeneration:
        """Create the set unless it exists, and return its current generation."""
        args: list[Argument] = [1 + secrets.randbits(32), BITS, secrets.randbits(64), ENCODING, kind]
        generation = self._generation(client.run(_CREATE, [self.metadata], args))
        assert generation is not None
        return generation

    def _generation(self, metadata: Sequence[bytes | None]) -> SetGeneration | None:
        gen, bits, hash_seed, kind = metadata
        if gen is None or bits is None or hash_seed is None or kind is None:
            return None
        return SetGeneration(
            tag=self.tag,
            number=int(gen),
            bits=int(bits),
            hash_seed=int(hash_seed),
            kind="hash" if kind == b"hash" else "set",
        )
