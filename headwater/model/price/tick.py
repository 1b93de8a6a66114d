"""Ticks on their way: from the record that a pipeline makes, to the record of the ticks topic, to the price state.

On the topic, the key is `<chain>:<address in lower case>`, and the partition follows from it. The value is 25 bytes
(time, order, price, decimals; little-endian), and the address as on chain where it is not in lower case.

The key of a tick that is quoted in another token ends with QUOTED. Its price is in units of the quote token, whose
address in lower case follows the 25 bytes; behind SEPARATOR comes the token's own address, or nothing as above.
"""

import math
import re
import struct
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec

from headwater.model.price.state import PricedTick
from headwater.model.record import RecordBatch
from headwater.model.timestamps import milliseconds

TICKS_TOPIC = "headwater.ticks"
PARTITIONS = 16
"""Another number means another topic, and prices built anew."""
MAX_AHEAD_MS = 300_000
MAX_DECIMALS = 255
MAX_NAME_CHARS = 200
FEWEST_SECONDS = 10**8
"""Smaller numbers are no times: as seconds they lie before March 1973."""
_LOG_BITS, _BLOCK_BITS = 24, 40
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")

SEPARATOR = b"\0"
QUOTED = SEPARATOR + b"quoted"
"""No address has a NUL."""

_VALUE = struct.Struct("<qQdB")
VALUE_BYTES = _VALUE.size
_UNNAMED_VALUE = struct.Struct("<qQdB0s")
_PRICE, _PRICE_AT = struct.Struct("<d"), 16


class BadTick(Exception):
    """A record that is no tick: it goes to the dead letters with `error` and `message`."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class _Record(msgspec.Struct):
    chain: Any = None
    token_address: Any = None
    price_usd: Any = None
    price_quote: Any = None
    quote_address: Any = None
    timestamp: Any = None
    decimals: Any = None
    block_number: Any = None
    log_index: Any = None


_decode = msgspec.json.Decoder(_Record).decode


def token_key(chain: str, address: str) -> str:
    """What stands for a token: addresses match in any case. No chain has a colon in it."""
    return f"{chain}:{address}".lower()


def quoted_key(token: bytes) -> bytes:
    """The key of a token's quoted ticks, by the key of the token."""
    return token + QUOTED


def is_quoted(key: bytes) -> bool:
    """Whether it is the key of quoted ticks."""
    return key.endswith(QUOTED)


def quote_key(key: bytes, quote: bytes) -> bytes:
    """The key of a quote token, by a key of a token on the same chain and the quote's address in lower case."""
    return key[: key.index(b":") + 1] + quote


def partition_of(key: bytes) -> int:
    """The partition of a token, by its key or that of its quoted ticks."""
    return crc32(key.removesuffix(QUOTED)) % PARTITIONS


def to_topic(value: bytes | None, now: int) -> tuple[bytes, bytes]:
    """Key and value on the ticks topic of a record as a pipeline makes it. now: ms since the epoch. Raises BadTick."""
    record = _parse(value)
    chain, address = _chain(record.chain), _address("token_address", record.token_address)
    key = token_key(chain, address).encode()
    order = _whole("block_number", record.block_number, _BLOCK_BITS) << _LOG_BITS
    order |= _whole("log_index", record.log_index, _LOG_BITS)
    time, decimals = _time(record.timestamp, now), _decimals(record.decimals)
    mint = b"" if address == address.lower() else address.encode()
    if record.price_quote is None and record.quote_address is None:
        return key, pack(time, order, _price("price_usd", record.price_usd), decimals) + mint
    quote = _quote(record, address)
    packed = pack(time, order, _price("price_quote", record.price_quote), decimals)
    return quoted_key(key), packed + quote.encode() + SEPARATOR + mint


def _quote(record: _Record, address: str) -> str:
    """The address of the quote token in lower case."""
    if record.price_usd is not None:
        raise BadTick("BadTick", "A tick has price_usd, or else price_quote and quote_address; not both.")
    quote = _address("quote_address", record.quote_address).lower()
    if quote == address.lower():
        raise BadTick("BadTick", "quote_address is the token's own address.")
    return quote


def pack(time: int, order: int, price: float, decimals: int) -> bytes:
    """The value of a tick whose key tells its address."""
    return _VALUE.pack(time, order, price, decimals)


def ticks_of(records: RecordBatch) -> RecordBatch:
    """The records that `to_topic` may have made: most often the same batch."""
    if len(records) and records.keys.smallest >= 0 and records.values.smallest >= _VALUE.size:
        return records
    sizes = zip(records.keys.sizes, records.values.sizes, strict=True)
    return records.select(key >= 0 and value >= _VALUE.size for key, value in sizes)


def from_topic(values: Sequence[bytes]) -> list[PricedTick]:
    """The ticks of records of the ticks topic that `ticks_of` gives."""
    if {*map(len, values)} == {_VALUE.size}:
        return [*_UNNAMED_VALUE.iter_unpack(b"".join(values))]
    return [(*_VALUE.unpack_from(value), value[_VALUE.size :]) for value in values]


def price_of(value: bytes) -> float:
    """The price in such a record."""
    price: float = _PRICE.unpack_from(value, _PRICE_AT)[0]
    return price


def time_of(value: bytes) -> int:
    """The time in such a record."""
    return int.from_bytes(value[:8], "little", signed=True)


def _parse(value: bytes | None) -> _Record:
    try:
        return _decode(value or b"")
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadTick("InvalidJSON", f"A tick is a JSON object: {error}.") from error


def _name(member: str, given: Any) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= MAX_NAME_CHARS or not given.isprintable():
        raise BadTick("BadTick", f"{member} has to be a string of 1 to {MAX_NAME_CHARS} printable characters.")
    return given


def _chain(given: Any) -> str:
    chain = _name("chain", given)
    if ":" in chain:  # it ends the chain in a token's key
        raise BadTick("BadTick", "chain has a colon in it.")
    return chain


def _address(member: str, given: Any) -> str:
    """As on chain; hexadecimal addresses, which may come in any case, in lower case."""
    address = _name(member, given)
    return address.lower() if address[:2] in ("0x", "0X") else address


def _number(member: str, given: Any) -> float:
    """A JSON number, or a decimal string."""
    if isinstance(given, str):
        if _is_decimal(given):
            return float(given)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return float(given)
        except OverflowError:
            return math.inf
    raise BadTick("BadTick", f"{member} has to be a number or a decimal string.")


def _price(member: str, given: Any) -> float:
    price = _number(member, given)
    if not 0 < price < math.inf:
        raise BadTick("BadTick", f"{member} has to be finite and above 0.")
    return price


def _whole(member: str, given: Any, bits: int) -> int:
    """0 where it is left out."""
    if given is None:
        return 0
    number = _number(member, given) if not isinstance(given, int) else given
    if not 0 <= number < 1 << bits or number != int(number):
        raise BadTick("BadTick", f"{member} has to be an integer from 0 to {(1 << bits) - 1}.")
    return int(number)


def _decimals(given: Any) -> int:
    if given is None:
        raise BadTick("BadTick", "The decimals of the token are unknown: decimals has to be an integer.")
    number = _number("decimals", given)
    if number not in range(MAX_DECIMALS + 1):
        raise BadTick("BadTick", f"decimals has to be an integer from 0 to {MAX_DECIMALS}.")
    return int(number)


def _time(given: Any, now: int) -> int:
    try:
        number = float(given) if isinstance(given, str) and _is_decimal(given) else given
        time = None if _is_too_short(number) else milliseconds(number)
    except (ValueError, OverflowError):
        time = None
    if time is None or not 0 <= time < 1 << 53:
        raise BadTick(
            "BadTick",
            "timestamp has to be a time: RFC 3339 (a date with hyphens), or a number since the epoch, in seconds of at "
            "least 9 digits or in ms, us or ns.",
        )
    if time > now + MAX_AHEAD_MS:
        raise BadTick("BadTick", "timestamp is more than five minutes ahead of the clock.")
    return round(time)


def _is_too_short(number: Any) -> bool:
    """Whether a number is no time of a chain: 20260102 is rather a date than a second of 1970."""
    return isinstance(number, int | float) and abs(number) < FEWEST_SECONDS


def _is_decimal(text: str) -> bool:
    """Whether a string is a decimal number: ASCII digits, at most one point, perhaps a sign and an exponent."""
    return _DECIMAL.fullmatch(text) is not None
