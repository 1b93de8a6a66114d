"""A token's ticks behind its state, as they came: written at once, folded together later.

A tail holds values of the ticks topic, each behind its length in a byte.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from headwater.errors import PriceStateUnreadable
from headwater.model.price.state import PricedTick
from headwater.model.price.tick import from_topic

TAIL_BYTES = 512
"""A longer tail is about to be folded, and so much at once is folded without becoming one."""
ENTRY = 26
"""Bytes of a tick whose key tells its address, with its length."""
UNNAMED_ENTRY: np.dtype[Any] = np.dtype(
    [("length", "u1"), ("time", "<i8"), ("order", "<u8"), ("price", "<f8"), ("decimals", "u1")]
)
"""Such an entry as columns."""
_MOST_OF_ONE = 255
_LENGTHS = [bytes([length]) for length in range(_MOST_OF_ONE + 1)]


def fits(values: Sequence[bytes]) -> bool:
    """Whether `pack` takes these values of the ticks topic."""
    lengths = [*map(len, values)]
    return sum(lengths) <= TAIL_BYTES and max(lengths) <= _MOST_OF_ONE


def pack(values: Sequence[bytes]) -> bytes:
    """What is appended to a tail."""
    return b"".join([_LENGTHS[len(value)] + value for value in values])


def is_unnamed(tail: bytes) -> bool:
    """Whether a tail is whole and the key tells the address of all its ticks."""
    return tail[::ENTRY] == _LENGTHS[ENTRY - 1] * (len(tail) // ENTRY)


def unpack(tail: bytes) -> list[PricedTick]:
    """The ticks of a tail. Raises PriceStateUnreadable when it is cut off."""
    step = tail[0] + 1
    if tail[::step] == tail[:1] * (len(tail) // step):  # all are of one length: as good as always
        return [*_entry_struct(step).iter_unpack(tail)]
    values, at = list[bytes](), 0
    while at < len(tail):
        end = at + 1 + tail[at]
        values.append(tail[at + 1 : end])
        at = end
    if at > len(tail):
        raise PriceStateUnreadable
    return from_topic(values)


@cache
def _entry_struct(step: int) -> struct.Struct:
    """A value of the ticks topic and its length, which take so many bytes together."""
    return struct.Struct(f"<xqQdB{step - ENTRY}s")
