"""A token's state and the ticks of an hour as bytes, little-endian as the machine is.

A state: its format, `since`, the number of bands and of the ticks that follow; these, the newest and those ahead, each
with its decimals and its address behind its length; then each band: its number, how many entries its columns have, and
the columns. An hour: the columns of times within the hour (ms), orders and prices.
"""

import struct
from array import array
from collections.abc import Iterable

from headwater.errors import PriceStateUnreadable
from headwater.model.price.band import Band, band_of
from headwater.model.price.series import Series, Tick
from headwater.model.price.state import TokenState, Told

FORMAT = 1
_HEAD = struct.Struct("<BqHI")
_NEWEST = struct.Struct("<qQdBH")
_BAND = struct.Struct("<h5I")
_HOUR_ROW_BYTES = 20


def encode(state: TokenState) -> bytes:
    """The bytes of a state that has a newest tick, or ticks ahead. `left` is not among them."""
    parts: list[bytes | array[int] | array[float]] = [
        _HEAD.pack(FORMAT, state.since, len(state.bands), len(state.ahead) + (state.newest is not None))
    ]
    told = [state.newest] if state.newest is not None else []
    for tick in (*told, *state.ahead):
        parts += (_NEWEST.pack(*tick[:4], len(tick[4])), tick[4])
    for number, band in state.bands.items():
        parts.append(_BAND.pack(number, *map(len, band.series), len(band.hours)))
        for series in band.series:
            parts += (series.times, series.orders, series.prices)
        parts += (band.hours, band.minutes)
    return b"".join(parts)


def decode(data: bytes) -> TokenState:
    """What `encode` made. Raises PriceStateUnreadable."""
    state = TokenState()
    written, since, bands, ticks = _HEAD.unpack_from(data)
    if written != FORMAT:
        raise PriceStateUnreadable
    state.begin_at(since)
    at, told = _HEAD.size, list[Told]()
    for _ in range(ticks):
        *tick, length = _NEWEST.unpack_from(data, at)
        at += _NEWEST.size + length
        told.append((*tick, data[at - length : at]))
    if bands:
        state.newest = told.pop(0)
    state.ahead = set(told)
    for _ in range(bands):
        number, *counts, hours = _BAND.unpack_from(data, at)
        at += _BAND.size
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


def encode_hour(hour: int, ticks: Iterable[Tick]) -> bytes:
    """The ticks of an hour, in any order: of every moment and band the last one."""
    kept: dict[tuple[int, int], Tick] = {}
    for tick in ticks:
        moment = tick[0], band_of(tick[2])
        kept[moment] = max(tick, kept.get(moment, tick))
    ordered = sorted(kept.values())
    times = array("I", [time - hour for time, _, _ in ordered])
    orders = array("Q", [order for _, order, _ in ordered])
    return times.tobytes() + orders.tobytes() + array("d", [price for _, _, price in ordered]).tobytes()


def decode_hour(hour: int, data: bytes) -> list[Tick]:
    """The ticks of an hour, in order."""
    count = len(data) // _HOUR_ROW_BYTES
    times, orders, prices = array("I"), array("Q"), array("d")
    times.frombytes(data[: 4 * count])
    orders.frombytes(data[4 * count : 12 * count])
    prices.frombytes(data[12 * count :])
    return [(hour + time, order, price) for time, order, price in zip(times, orders, prices, strict=True)]
