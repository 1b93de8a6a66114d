"""Encodes the state of a token as little-endian words of eight bytes.

The layout is:

- a head: the format (a byte), the number of hours_archived_by_minute (a byte), of bands (2 bytes) and of ticks (4
  bytes), window_start and recent_start;
- the hours_archived_by_minute;
- the newest tick and then the ticks in `ahead`. Each has a time, an order, a price, the decimals (a byte), the length
  of the address (2 bytes at offset 26) and the address, padded to words;
- for each band: its number, the lengths of its four series and of its list of hours (20 bytes from offset 4 on), and
  its columns: the times, orders and prices of each series, the hours, and the minutes.

single_band.py reads the words of a state that has a single band, no hours_archived_by_minute, no ticks ahead and no
address (see `is_single_band`). In such a state, recent_start is word 2, and the newest tick is in the words 3 to 6. The
head of the band is in the words 7 to 9, and its columns start at word 10.
"""

import struct
from array import array
from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

from headwater.errors import PriceStateUnreadable
from headwater.model.price.band import Band
from headwater.model.price.series import Series
from headwater.model.price.state import TokenState, TokenTick

FORMAT = 3
_HEAD = struct.Struct("<BBHIqq")
_TICK_HEAD = struct.Struct("<qQdBxH4x")
BAND_HEAD = struct.Struct("<h2x5I")
NEVER = -(1 << 62)
"""A time before all other times."""
EMPTY_STATE = (
    _HEAD.pack(FORMAT, 0, 1, 1, NEVER, NEVER) + _TICK_HEAD.pack(NEVER, 0, 1.0, 0, 0) + BAND_HEAD.pack(*[0] * 6)
)
"""The encoded state of a token without ticks, with a band without ticks."""
_SINGLE_BAND_HEAD = EMPTY_STATE[:8]
_ADDRESS_LENGTH = slice(_HEAD.size + 26, _HEAD.size + 28)


class Head(NamedTuple):
    """The part of an encoded state before the bands.

    See TokenState for the attributes without a description.

    Attributes:
        band_count: The number of bands.
        bands_offset: The byte offset of the first band.
    """

    window_start: int
    recent_start: int
    hours_archived_by_minute: set[int]
    band_count: int
    newest: TokenTick | None
    ahead: list[TokenTick]
    bands_offset: int


def encode_state(state: TokenState) -> bytes:
    """Encode a state that has at least one tick. The ticks in `to_archive` are not included."""
    ticks = [*state.ahead] if state.newest is None else [state.newest, *state.ahead]
    parts: list[bytes | array[int] | array[float]] = [
        _HEAD.pack(
            FORMAT,
            len(state.hours_archived_by_minute),
            len(state.bands),
            len(ticks),
            state.window_start,
            state.recent_start,
        ),
        array("q", sorted(state.hours_archived_by_minute)),
    ]
    for tick in ticks:
        parts += (_TICK_HEAD.pack(*tick[:4], len(tick[4])), tick[4], bytes(_padding(len(tick[4]))))
    for number, band in state.bands.items():
        parts.append(BAND_HEAD.pack(number, *map(len, band.series), len(band.hours)))
        for series in band.series:
            parts += (series.times, series.orders, series.prices)
        parts += (band.hours, band.minutes)
    return b"".join(parts)


def is_single_band(data: bytes) -> bool:
    """Whether single_band.py can evaluate an encoded state.

    Such a state is not truncated. It has a single band, no hours_archived_by_minute, no ticks ahead and no address.
    """
    if len(data) < len(EMPTY_STATE) or not data.startswith(_SINGLE_BAND_HEAD) or data[_ADDRESS_LENGTH] != b"\0\0":
        return False
    _, *counts = BAND_HEAD.unpack_from(data, len(EMPTY_STATE) - BAND_HEAD.size)
    return len(data) == len(EMPTY_STATE) + columns_size(counts)


def columns_size(counts: Sequence[int]) -> int:
    """Return the size of a band's columns in bytes, given the lengths in the head of the band."""
    return 24 * sum(counts[:4]) + 16 * counts[4]


def decode_state(data: bytes) -> TokenState:
    """Decode a state. Raises PriceStateUnreadable."""
    head, state = decode_head(data), TokenState()
    state.set_window_start(head.window_start)
    state.recent_start = head.recent_start
    state.hours_archived_by_minute = head.hours_archived_by_minute
    state.newest = head.newest
    state.ahead = set(head.ahead)
    offset = head.bands_offset
    for _ in range(head.band_count):
        number, *counts = BAND_HEAD.unpack_from(data, offset)
        start = offset + BAND_HEAD.size
        offset = start + columns_size(counts)
        state.bands[number] = _decode_columns(data[start:offset], counts)
    return state


def _decode_columns(columns: bytes, counts: Sequence[int]) -> Band:
    *series_counts, hours = counts
    read = BytesIO(columns).read
    lows, highs, recent, closes = [Series(read(8 * count), read(8 * count), read(8 * count)) for count in series_counts]
    return Band(lows, highs, recent, closes, read(8 * hours), read(8 * hours))


def decode_head(data: bytes) -> Head:
    """Decode the head of a state, and check that the state is complete.

    Raises PriceStateUnreadable.
    """
    if data[:1] != bytes([FORMAT]):
        raise PriceStateUnreadable
    try:
        head = _decode_head(data)
        end = head.bands_offset
        for _ in range(head.band_count):
            _, *counts = BAND_HEAD.unpack_from(data, end)
            end += BAND_HEAD.size + columns_size(counts)
    except (struct.error, ValueError, IndexError) as error:
        raise PriceStateUnreadable from error
    if end != len(data):
        raise PriceStateUnreadable
    return head


def _decode_head(data: bytes) -> Head:
    _, hour_count, band_count, tick_count, window_start, recent_start = _HEAD.unpack_from(data)
    offset = _HEAD.size + 8 * hour_count
    hours_archived_by_minute = set(array("q", data[_HEAD.size : offset]))
    ticks = list[TokenTick]()
    for _ in range(tick_count):
        time, order, price, decimals, length = _TICK_HEAD.unpack_from(data, offset)
        offset += _TICK_HEAD.size
        ticks.append((time, order, price, decimals, data[offset : offset + length]))
        offset += length + _padding(length)
    newest = ticks.pop(0) if band_count else None
    return Head(window_start, recent_start, hours_archived_by_minute, band_count, newest, ticks, offset)


def _padding(length: int) -> int:
    """Return the number of padding bytes up to the next multiple of eight."""
    return -length % 8
