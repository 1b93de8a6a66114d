"""The digest of a set, which is equal for equal sets, whatever the order of the writes was.

The digest is the sum of the 128-bit XXH3 of each value in UTF-8, modulo 2^128, in hex. So a write updates it without
reading the set, and a client computes it from a file.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from xxhash import xxh3_128_digest, xxh3_128_intdigest

DIGEST_BYTES = 16
EMPTY = "0" * (2 * DIGEST_BYTES)


def hash_sum(values: Iterable[str]) -> int:
    """Return the sum of the hashes of values.

    The digest of a set is the remainder of this sum modulo 2^128.
    """
    return sum(map(xxh3_128_intdigest, _encoded(values)))


def packed_hashes(values: Iterable[str]) -> bytes:
    """Return the hash of each value, joined, in big-endian order."""
    return b"".join(map(xxh3_128_digest, _encoded(values)))


def word_sums(packed: bytes) -> list[int]:
    """Return the sums of the 32-bit words of packed hashes, the lowest word first."""
    words = np.frombuffer(packed, ">u4").reshape(-1, DIGEST_BYTES // 4)
    sums: list[int] = words.sum(axis=0, dtype=np.uint64)[::-1].tolist()
    return sums


def digest(total: int) -> str:
    """Return the digest for a sum of hashes."""
    return f"{total % (1 << 8 * DIGEST_BYTES):0{2 * DIGEST_BYTES}x}"


def pack(total: int) -> bytes:
    """Return a sum of hashes as the scripts keep it: its last 128 bits, in little-endian order."""
    return (total % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES, "little")


def stored_digest(stored: bytes | None, version: int) -> str | None:
    """Return the stored digest; None when it belongs to another version of the set.

    The scripts store the version of the set, a space, and the sum in little-endian order. A process of an older version
    of Headwater raises the version of the set and leaves the digest as it is.
    """
    prefix = b"%d " % version
    if stored is None or not stored.startswith(prefix) or len(stored) != len(prefix) + DIGEST_BYTES:
        return None
    return digest(int.from_bytes(stored[-DIGEST_BYTES:], "little"))


def of_values(values: Iterable[str]) -> str:
    """Return the digest of distinct values."""
    return digest(hash_sum(values))


def _encoded(values: Iterable[str]) -> Sequence[bytes]:
    return [value.encode("utf-8", "surrogatepass") for value in values]
