"""Stored form and place of a value: pure functions.

The encoding is injective: a value has one stored form, and a stored form stands for one value. The place is a keyed
hash; its upper `bits` bits name the bucket, its upper 53 bits are the position, which JSON and JavaScript carry
exactly. Bucket order is therefore position order.
"""

from binascii import hexlify, unhexlify
from collections.abc import Iterable

import xxhash

POSITION_BITS = 53
HASH_BITS = 64
TEXT, _ADDRESS, _HASH_0X, _HASH = b"\0", b"\1", b"\2", b"\3"
TAGS = {42: _ADDRESS, 66: _HASH_0X, 64: _HASH}
"""The tag of hex, by its length as text."""


def encode(value: str) -> bytes:
    """The stored form of a normalised value: a tag and, for lower-case hex of 20 or 32 bytes, the bytes themselves."""
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


def decode(stored: bytes) -> str:
    """The value of a stored form."""
    tag = stored[:1]
    if tag == TEXT:
        return stored[1:].decode("utf-8", "surrogatepass")
    digits = hexlify(stored[1:]).decode()
    return digits if tag == _HASH else "0x" + digits


def hash_of(stored: bytes, hash_key: int) -> int:
    """The 64-bit keyed hash. The key is secret per set: nobody can aim values at one bucket."""
    return xxhash.xxh3_64_intdigest(stored, hash_key)


def hashes(stored: Iterable[bytes], hash_key: int) -> list[int]:
    """The hashes of many stored forms, in order."""
    digest = xxhash.xxh3_64_intdigest
    return [digest(value, hash_key) for value in stored]


def position(hashed: int) -> int:
    """The place of a value in a listing: 0 … 2^53 − 1."""
    return hashed >> (HASH_BITS - POSITION_BITS)


def bucket(hashed: int, bits: int) -> int:
    """The number of the bucket, of 2^bits."""
    return hashed >> (HASH_BITS - bits)
