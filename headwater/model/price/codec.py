"""Encodes a token's state as bytes, little-endian, in words of eight bytes.

The layout is: a head (format, number of split hours, of bands and of ticks, `since`, `kept`); the split hours; the
ticks, newest first and then those ahead of the clock, each with decimals, length of the address and address, padded to
words; then each band (its number, the lengths of its columns, the columns).
"""

import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from headwater.errors import PriceStateUnreadable
from headwater.model.price.band import Band
from headwater.model.price.series import Series
from headwater.model.price.state import PricedTick, TokenState

FORMAT = 3
_HEAD = struct.Struct("<BBHIqq")
_TICK_HEAD = struct.Struct("<qQdBxH4x")
BAND_HEAD = struct.Struct("<h2x5I")
NEVER = -(1 << 62)
"""Before all times."""
EMPTY = _HEAD.pack(FORMAT, 0, 1, 1, NEVER, NEVER) + _TICK_HEAD.pack(NEVER, 0, 1.0, 0, 0) + BAND_HEAD.pack(*[0] * 6)
"""Stands for the state of a token that has none."""
_PLAIN = EMPTY[:8]
_ADDRESS_LENGTH = slice(_HEAD.size + 26, _HEAD.size + 28)


class Head(NamedTuple):
    """What stands before the bands. end: where they begin."""

    since: int
    kept: int
    split: set[int]
    bands: int
    newest: PricedTick | None
    ahead: list[PricedTick]
    end: int


def encode(state: TokenState) -> bytes:
    """The bytes of a state that has a newest tick, or ticks ahead. `left` is not among them."""
    priced = [*state.ahead] if state.newest is None else [state.newest, *state.ahead]
    parts: list[bytes | array[int] | array[float]] = [
        _HEAD.pack(FORMAT, len(state.split), len(state.bands), len(priced), state.since, state.kept),
        array("q", sorted(state.split)),
    ]
    for tick in priced:
        parts += (_TICK_HEAD.pack(*tick[:4], len(tick[4])), tick[4], bytes(_missing(len(tick[4]))))
    for number, band in state.bands.items():
        parts.append(BAND_HEAD.pack(number, *map(len, band.series), len(band.hours)))
        for series in band.series:
            parts += (series.times, series.orders, series.prices)
        parts += (band.hours, band.minutes)
    return b"".join(parts)


def is_plain(data: bytes) -> bool:
    """Whether a state is whole and has one band, no split hours, no ticks ahead, and an address that its key tells."""
    if len(data) < len(EMPTY) or not data.startswith(_PLAIN) or data[_ADDRESS_LENGTH] != b"\0\0":
        return False
    _, *counts = BAND_HEAD.unpack_from(data, len(EMPTY) - BAND_HEAD.size)
    return len(data) == len(EMPTY) + columns_size(counts)


def columns_size(counts: Sequence[int]) -> int:
    """The bytes of a band's columns; counts: as its head has them."""
    return 24 * sum(counts[:4]) + 16 * counts[4]


def decode(data: bytes) -> TokenState:
    """What `encode` made. Raises PriceStateUnreadable."""
    head, state = decode_head(data), TokenState()
    state.begin_at(head.since)
    state.kept, state.split, state.newest, state.ahead = head.kept, head.split, head.newest, set(head.ahead)
    at = head.end
    for _ in range(head.bands):
        number, *counts, hours = BAND_HEAD.unpack_from(data, at)
        at += BAND_HEAD.size
        series: list[Series] = []
        for count in counts:
            a, b, c = at + 8 * count, at + 16 * count, at + 24 * count
            series.append(Series(data[at:a], data[a:b], data[b:c]))
            at = c
        end = at + 16 * hours
        lows, highs, recent, closes = series
        middle = at + 8 * hours
        state.bands[number] = Band(lows, highs, recent, closes, data[at:middle], data[middle:end])
        at = end
    return state


def decode_head(data: bytes) -> Head:
    """The head of a whole state. Raises PriceStateUnreadable."""
    if data[:1] != bytes([FORMAT]):
        raise PriceStateUnreadable
    try:
        head = _decode_head(data)
        end = head.end
        for _ in range(head.bands):
            _, *counts = BAND_HEAD.unpack_from(data, end)
            end += BAND_HEAD.size + columns_size(counts)
    except (struct.error, ValueError) as error:
        raise PriceStateUnreadable from error
    if end != len(data):
        raise PriceStateUnreadable
    return head


def _decode_head(data: bytes) -> Head:
    _, split, bands, ticks, since, kept = _HEAD.unpack_from(data)
    at = _HEAD.size + 8 * split
    hours, priced = set(array("q", data[_HEAD.size : at])) if split else set[int](), list[PricedTick]()
    for _ in range(ticks):
        time, order, price, decimals, length = _TICK_HEAD.unpack_from(data, at)
        at += _TICK_HEAD.size
        priced.append((time, order, price, decimals, data[at : at + length]))
        at += length + _missing(length)
    return Head(since, kept, hours, bands, priced.pop(0) if bands else None, priced, at)


def _missing(length: int) -> int:
    """The bytes that fill the last word."""
    return -length % 8
