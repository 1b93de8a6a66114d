"""The bloom filter of a block's logs (Ethereum yellow paper, section 4.4.1).

Each address and topic sets three bits.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from eth_hash.auto import keccak

from headwater.ingest.evm.blocks import Log

_BITS: Final = 2048
_POWERS: Final = tuple(1 << bit for bit in range(_BITS))


@lru_cache(1 << 17)
def _packed_bit_numbers(word: str) -> int:
    """Return the three bit numbers of an address or topic, of 11 bits each.

    The bit numbers are packed into one integer, to save memory.
    """
    digest = keccak(bytes.fromhex(word[2:]))
    pairs = int.from_bytes(digest[:6], "big")
    return (pairs >> 32 & 2047) << 22 | (pairs >> 16 & 2047) << 11 | pairs & 2047


def bloom_of(logs: Iterable[Log]) -> int:
    """Return the bloom filter of these logs."""
    bloom = 0
    for word in {word for log in logs for word in (log.address, *log.topics)}:
        bits = _packed_bit_numbers(word)
        bloom |= _POWERS[bits >> 22] | _POWERS[bits >> 11 & 2047] | _POWERS[bits & 2047]
    return bloom


def missing_bits(bloom: str | None, received: int) -> int:
    """Return the bits of a bloom filter that the received logs don't set.

    `bloom` is the filter of a header or receipt, in hex, and `received` is the filter of the received logs.
    """
    return (int(bloom, 16) if bloom and bloom[2:] else 0) & ~received
