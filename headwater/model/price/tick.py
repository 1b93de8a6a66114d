"""Converts records of pipelines to the ticks topic, and the ticks topic to TokenTick.

On the ticks topic, the key is `<chain>:<address in lower case>`, and the partition follows from the key. The value has
25 bytes (time, order, price, decimals; little-endian). When the token's address on chain is not in lower case, the
address follows.

The key of a tick that is quoted in another token ends with QUOTED. Its price is in units of the quote token. After the
25 bytes, its value has the address of the quote token in lower case, SEPARATOR, and the token's own address when that
is not in lower case.
"""

import math
import re
import struct
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec

from headwater.model.price.state import TokenTick
from headwater.model.record import RecordBatch
from headwater.model.timestamps import to_epoch_ms

TICKS_TOPIC = "headwater.ticks"
TICKS_PARTITIONS = 16
"""A change of this number requires a new topic, and a rebuild of all prices."""
MAX_AHEAD_MS = 300_000
"""How far the time of a tick may be ahead of the clock."""
MAX_DECIMALS = 255
MAX_NAME_CHARS = 200
MIN_TIMESTAMP = 10**8
"""Smaller numbers are rejected as timestamps: in seconds, they would be before March 1973."""
_LOG_INDEX_BITS, _BLOCK_NUMBER_BITS = 24, 40
"""The order of a tick has the block number and then the log index, with this many bits."""
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")

SEPARATOR = b"\0"
QUOTED = SEPARATOR + b"quoted"
"""The end of the key of quoted ticks. No address contains a NUL."""

_VALUE = struct.Struct("<qQdB")
VALUE_BYTES = _VALUE.size
_VALUE_WITHOUT_ADDRESS = struct.Struct("<qQdB0s")
"""The `0s` yields an empty address, so that the unpacked value is a TokenTick."""
_PRICE, _PRICE_OFFSET = struct.Struct("<d"), 16


class BadTick(Exception):
    """A record is not a valid tick.

    The record becomes a dead letter with `error` and `message`.
    """

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
    """Return the key of a token: `<chain>:<address>`.

    The key is in lower case, because addresses match in any case.
    """
    return f"{chain}:{address}".lower()


def key_of_quoted_ticks(token: bytes) -> bytes:
    """Return the key of a token's quoted ticks, given the key of the token."""
    return token + QUOTED


def is_quoted(key: bytes) -> bool:
    """Whether a key is the key of quoted ticks."""
    return key.endswith(QUOTED)


def key_of_quote_token(key: bytes, quote: bytes) -> bytes:
    """Return the key of a quote token on the chain of another token.

    Args:
        key: The key of the other token.
        quote: The address of the quote token, in lower case.
    """
    return key[: key.index(b":") + 1] + quote


def partition_of(key: bytes) -> int:
    """Return the partition of a token, given its key or the key of its quoted ticks."""
    return crc32(key.removesuffix(QUOTED)) % TICKS_PARTITIONS


def encode_tick(value: bytes | None, now: int) -> tuple[bytes, bytes]:
    """Convert a record of a pipeline to the key and the value on the ticks topic.

    `now` is in ms since the epoch. Raises BadTick.
    """
    record = _parse(value)
    chain, address = _chain(record.chain), _address("token_address", record.token_address)
    key = token_key(chain, address).encode()
    order = _whole("block_number", record.block_number, _BLOCK_NUMBER_BITS) << _LOG_INDEX_BITS
    order |= _whole("log_index", record.log_index, _LOG_INDEX_BITS)
    time, decimals = _time(record.timestamp, now), _decimals(record.decimals)
    explicit_address = b"" if address == address.lower() else address.encode()
    if record.price_quote is None and record.quote_address is None:
        return key, encode_value(time, order, _price("price_usd", record.price_usd), decimals) + explicit_address
    quote = _quote(record, address)
    packed = encode_value(time, order, _price("price_quote", record.price_quote), decimals)
    return key_of_quoted_ticks(key), packed + quote.encode() + SEPARATOR + explicit_address


def _quote(record: _Record, address: str) -> str:
    """Return the address of the quote token in lower case."""
    if record.price_usd is not None:
        raise BadTick("BadTick", "Set either price_usd, or price_quote and quote_address, but not both.")
    quote = _address("quote_address", record.quote_address).lower()
    if quote == address.lower():
        raise BadTick("BadTick", "quote_address is the token's own address.")
    return quote


def encode_value(time: int, order: int, price: float, decimals: int) -> bytes:
    """Encode the value of a tick whose address is in lower case."""
    return _VALUE.pack(time, order, price, decimals)


def select_well_formed(records: RecordBatch) -> RecordBatch:
    """Return the records of a batch that have the form of ticks. Usually all records have it.

    The size of a null key or value is -1.
    """
    if len(records) and records.keys.min_size >= 0 and records.values.min_size >= _VALUE.size:
        return records
    sizes = zip(records.keys.sizes, records.values.sizes, strict=True)
    return records.select(key_size >= 0 and value_size >= _VALUE.size for key_size, value_size in sizes)


def decode_ticks(values: Sequence[bytes]) -> list[TokenTick]:
    """Decode values of the ticks topic, from records that `select_well_formed` has selected."""
    if {*map(len, values)} == {_VALUE.size}:
        return [*_VALUE_WITHOUT_ADDRESS.iter_unpack(b"".join(values))]
    return [(*_VALUE.unpack_from(value), value[_VALUE.size :]) for value in values]


def price_of(value: bytes) -> float:
    """Return the price in a value of the ticks topic."""
    price: float = _PRICE.unpack_from(value, _PRICE_OFFSET)[0]
    return price


def time_of(value: bytes) -> int:
    """Return the time in a value of the ticks topic, in ms since the epoch."""
    return int.from_bytes(value[:8], "little", signed=True)


def _parse(value: bytes | None) -> _Record:
    try:
        return _decode(value or b"")
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadTick("InvalidJSON", f"A tick must be a JSON object: {error}.") from error


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS or not value.isprintable():
        raise BadTick("BadTick", f"{field} must be a string of 1 to {MAX_NAME_CHARS} printable characters.")
    return value


def _chain(value: Any) -> str:
    chain = _name("chain", value)
    if ":" in chain:  # in a token's key, a colon ends the chain
        raise BadTick("BadTick", "chain must not contain a colon.")
    return chain


def _address(field: str, value: Any) -> str:
    """Return the address of a token on its chain.

    A hexadecimal address is converted to lower case, because its case has no meaning.
    """
    address = _name(field, value)
    return address.lower() if address[:2] in ("0x", "0X") else address


def _number(field: str, value: Any) -> float:
    """Return the value of a JSON number or a decimal string."""
    if isinstance(value, str):
        if _is_decimal(value):
            return float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    raise BadTick("BadTick", f"{field} must be a number or a decimal string.")


def _price(field: str, value: Any) -> float:
    price = _number(field, value)
    if not 0 < price < math.inf:
        raise BadTick("BadTick", f"{field} must be finite and above 0.")
    return price


def _whole(field: str, value: Any, bits: int) -> int:
    """Return an integer of at most `bits` bits; 0 when the field is omitted."""
    if value is None:
        return 0
    number = value if type(value) is int else _number(field, value)  # a large integer is not exact as a float
    if not 0 <= number < 1 << bits or number != int(number):
        raise BadTick("BadTick", f"{field} must be an integer from 0 to {(1 << bits) - 1}.")
    return int(number)


def _decimals(value: Any) -> int:
    if value is None:
        raise BadTick("BadTick", "The decimals of the token are unknown: decimals must be an integer.")
    number = _number("decimals", value)
    if number not in range(MAX_DECIMALS + 1):
        raise BadTick("BadTick", f"decimals must be an integer from 0 to {MAX_DECIMALS}.")
    return int(number)


def _time(value: Any, now: int) -> int:
    try:
        number = float(value) if isinstance(value, str) and _is_decimal(value) else value
        time = None if _is_too_small(number) else to_epoch_ms(number)
    except (ValueError, OverflowError):
        time = None
    if time is None or not 0 <= time < 1 << 53:
        raise BadTick(
            "BadTick",
            "timestamp must be an RFC 3339 time (with hyphens in the date), or a number since the epoch: seconds, with "
            "at least 9 digits, or ms, us or ns.",
        )
    if time > now + MAX_AHEAD_MS:
        raise BadTick("BadTick", "timestamp is more than five minutes ahead of the clock.")
    return round(time)


def _is_too_small(number: Any) -> bool:
    """Whether a number is too small for a timestamp, such as the date 20260102."""
    return isinstance(number, int | float) and abs(number) < MIN_TIMESTAMP


def _is_decimal(text: str) -> bool:
    """Whether a text is a decimal number of ASCII digits.

    The number may have a sign, a point and an exponent.
    """
    return _DECIMAL.fullmatch(text) is not None
