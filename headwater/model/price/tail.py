"""The tail of a token: ticks after the stored state, which are folded into it later.

A tail is a sequence of values of the ticks topic. Each is prefixed by its length in one byte.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from headwater.errors import PriceStateUnreadable
from headwater.model.price.state import PricedTick
from headwater.model.price.tick import decode_ticks

TAIL_BYTES = 512
"""A longer tail is folded into the state. A larger batch of ticks is folded without being appended first."""
ENTRY_BYTES = 26
"""The size of an entry without an address, with its length byte."""
ENTRY_DTYPE: np.dtype[Any] = np.dtype(
    [("length", "u1"), ("time", "<i8"), ("order", "<u8"), ("price", "<f8"), ("decimals", "u1")]
)
"""The numpy dtype of an entry without an address."""
_MAX_VALUE_BYTES = 255
_LENGTHS = [bytes([length]) for length in range(_MAX_VALUE_BYTES + 1)]


def fits(values: Sequence[bytes]) -> bool:
    """Whether these values of the ticks topic may be appended to a tail."""
    lengths = [*map(len, values)]
    return sum(lengths) <= TAIL_BYTES and max(lengths) <= _MAX_VALUE_BYTES


def pack(values: Sequence[bytes]) -> bytes:
    """Encode values of the ticks topic as entries of a tail."""
    return b"".join([_LENGTHS[len(value)] + value for value in values])


def has_no_addresses(tail: bytes) -> bool:
    """Whether a tail is complete and none of its ticks has an explicit address."""
    return tail[::ENTRY_BYTES] == _LENGTHS[ENTRY_BYTES - 1] * (len(tail) // ENTRY_BYTES)


def unpack(tail: bytes) -> list[PricedTick]:
    """Decode the ticks of a tail. Raises PriceStateUnreadable when it is truncated."""
    step = tail[0] + 1
    if tail[::step] == tail[:1] * (len(tail) // step):  # nearly always, all entries have the same length
        return [*_entry_struct(step).iter_unpack(tail)]
    values, at = list[bytes](), 0
    while at < len(tail):
        end = at + 1 + tail[at]
        values.append(tail[at + 1 : end])
        at = end
    if at > len(tail):
        raise PriceStateUnreadable
    return decode_ticks(values)


@cache
def _entry_struct(step: int) -> struct.Struct:
    """Return the layout of an entry of `step` bytes."""
    return struct.Struct(f"<xqQdB{step - ENTRY_BYTES}s")
