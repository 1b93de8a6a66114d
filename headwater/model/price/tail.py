"""The tail of a token: ticks that are stored beside its state and folded into it later.

A tail is a sequence of entries. An entry is a value of the ticks topic, after a byte with the length of the value.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from headwater.errors import PriceStateUnreadable
from headwater.model.price.state import TokenTick
from headwater.model.price.tick import decode_ticks

TAIL_BYTES = 512
"""A longer tail is folded into the state. A larger batch of ticks is folded without being appended to the tail."""
ENTRY_BYTES = 26
"""The size of an entry without an address, with its length byte."""
ENTRY_DTYPE: np.dtype[Any] = np.dtype(
    [("length", "u1"), ("time", "<i8"), ("order", "<u8"), ("price", "<f8"), ("decimals", "u1")]
)
"""The numpy dtype of an entry without an address."""
_MAX_VALUE_BYTES = 255
_LENGTHS = [bytes([length]) for length in range(_MAX_VALUE_BYTES + 1)]


def fits_in_tail(values: Sequence[bytes]) -> bool:
    """Whether these values of the ticks topic are small enough to be appended to a tail."""
    lengths = [*map(len, values)]
    return sum(lengths) <= TAIL_BYTES and max(lengths) <= _MAX_VALUE_BYTES


def encode_tail(values: Sequence[bytes]) -> bytes:
    """Encode values of the ticks topic as entries of a tail."""
    return b"".join([_LENGTHS[len(value)] + value for value in values])


def has_no_addresses(tail: bytes) -> bool:
    """Whether a tail is not truncated, and none of its ticks has an address."""
    return tail[::ENTRY_BYTES] == _LENGTHS[ENTRY_BYTES - 1] * (len(tail) // ENTRY_BYTES)


def decode_tail(tail: bytes) -> list[TokenTick]:
    """Decode the ticks of a tail. Raises PriceStateUnreadable when the tail is damaged."""
    try:
        return _unpack(tail)
    except struct.error as error:  # a length is too small for a tick
        raise PriceStateUnreadable from error


def _unpack(tail: bytes) -> list[TokenTick]:
    entry_size = tail[0] + 1
    if tail[::entry_size] == tail[:1] * (len(tail) // entry_size):  # nearly always, all entries have the same length
        return [*_entry_struct(entry_size).iter_unpack(tail)]
    values, offset = list[bytes](), 0
    while offset < len(tail):
        end = offset + 1 + tail[offset]
        values.append(tail[offset + 1 : end])
        offset = end
    if offset > len(tail):
        raise PriceStateUnreadable
    return decode_ticks(values)


@cache
def _entry_struct(entry_size: int) -> struct.Struct:
    """Return the layout of an entry of this size.

    Raises struct.error when the size is below ENTRY_BYTES.
    """
    return struct.Struct(f"<xqQdB{entry_size - ENTRY_BYTES}s")
