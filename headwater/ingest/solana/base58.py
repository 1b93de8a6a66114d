"""Base58 in Bitcoin's alphabet (draft-msporny-base58), as Solana uses it."""

from functools import lru_cache
from typing import Final

_ALPHABET: Final = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PAIRS: Final = [bytes([high, low]) for high in _ALPHABET for low in _ALPHABET]
_VALUES: Final = bytes(_ALPHABET.index(byte) if byte in _ALPHABET else 255 for byte in range(256))
_GROUP: Final = 10
"""The number of digits per division. 58 ** 10 is below 2 ** 63, and division is fast for such numbers."""
_BASE: Final = 58**_GROUP
CACHE_SIZE: Final = 1 << 13
"""The number of decoded texts in the cache. Instruction data is often repeated, above all in compute budget
instructions and swaps."""


def encode(data: bytes) -> str:
    """Encode bytes. Each leading zero byte becomes a `1`."""
    number, pairs = int.from_bytes(data), []
    while number:
        number, rest = divmod(number, _BASE)
        for _ in range(_GROUP // 2):
            rest, pair = divmod(rest, 58 * 58)
            pairs.append(_PAIRS[pair])
    digits = b"".join(reversed(pairs)).lstrip(b"1")
    return (b"1" * (len(data) - len(data.lstrip(b"\0"))) + digits).decode()


@lru_cache(CACHE_SIZE)
def decode(text: str) -> bytes:
    """Decode a text. Raises ValueError for a character outside of the alphabet."""
    digits = text.encode("ascii", "replace").translate(_VALUES)
    if 255 in digits:
        raise ValueError("the text contains a character that base58 does not have")
    number = 0
    for start in range(0, len(digits), _GROUP):
        group = digits[start : start + _GROUP]
        value = 0
        for digit in group:
            value = value * 58 + digit
        number = number * 58 ** len(group) + value
    zeros = len(digits) - len(digits.lstrip(b"\0"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8)
