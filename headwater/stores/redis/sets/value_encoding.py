"""The binary encoding and the hash of values.

The encoding is injective: two values never have the same encoding. A seeded 64-bit hash distributes the values over
buckets: its upper `bits` bits are the number of the bucket. Its upper 53 bits, which JavaScript represents exactly, are
the position in listings. So the order of buckets is the order of positions.
"""

from binascii import hexlify, unhexlify
from collections.abc import Iterable

import xxhash

POSITION_BITS = 53
HASH_BITS = 64
TEXT, _ADDRESS, _HASH_0X, _HASH = b"\0", b"\1", b"\2", b"\3"
TAGS = {42: _ADDRESS, 66: _HASH_0X, 64: _HASH}
"""The first byte of an encoded hex value, by the length of its text."""


def encode(value: str) -> bytes:
    """Encode a normalised value: a tag, and the bytes of hex or the text in UTF-8.

    Lower-case hex of 20 or 32 bytes is stored as bytes.
    """
    tag = TAGS.get(len(value))
    if tag is not None:
        digits = value if tag is _HASH else value[2:] if value.startswith("0x") else ""
        try:
            raw = unhexlify(digits)
        except ValueError:
            raw = b""
        if raw and (digits.islower() or digits.isdecimal()):
            return tag + raw
    return TEXT + value.encode("utf-8", "surrogatepass")


def decode(encoded: bytes) -> str:
    """Decode an encoded value."""
    tag = encoded[:1]
    if tag == TEXT:
        return encoded[1:].decode("utf-8", "surrogatepass")
    digits = hexlify(encoded[1:]).decode()
    return digits if tag == _HASH else "0x" + digits


def hashes(encoded: Iterable[bytes], hash_seed: int) -> list[int]:
    """Return the 64-bit seeded hashes of encoded values, in order.

    Each set has a secret seed, so that nobody can direct values at one bucket.
    """
    digest = xxhash.xxh3_64_intdigest
    return [digest(value, hash_seed) for value in encoded]
