"""The bloom filter of a block's logs (Ethereum yellow paper, section 4.4.1): three bits for each address and topic."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from eth_hash.auto import keccak

from headwater.ingest.evm.blocks import Log

_BITS: Final = 2048
_PAIRS: Final = (0, 2, 4)


@lru_cache(1 << 16)
def _mask(word: str) -> int:
    """The bits of an address or a topic."""
    digest = keccak(bytes.fromhex(word.removeprefix("0x")))
    mask = 0
    for at in _PAIRS:
        mask |= 1 << (int.from_bytes(digest[at : at + 2], "big") % _BITS)
    return mask


def bloom_of(logs: Iterable[Log]) -> int:
    """The filter that these logs have."""
    words = {word for log in logs for word in (log.address, *log.topics)}
    bloom = 0
    for word in words:
        bloom |= _mask(word)
    return bloom


def covers(logs: Iterable[Log], bloom: str) -> bool:
    """Whether these logs explain every bit of a filter as nodes write it. Logs may have bits that it lacks."""
    bits = int(bloom, 16) if bloom.removeprefix("0x") else 0
    return not bits or not bits & ~bloom_of(logs)
