"""The statistics of a token at a moment, and which prices count."""

import sys
from bisect import bisect_right
from collections.abc import Collection, Iterable
from math import inf
from typing import NamedTuple

from headwater.model.price.band import HOUR_MS, Band, band_of, hour_of
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState

HOUR, DAY = HOUR_MS, 24 * HOUR_MS
STALE_MS = 7 * DAY
FEWEST_MINUTES = 3
SHARE_OF_MINUTES = 100
"""One minute in so many has to have a tick in an established band."""


class Stats(NamedTuple):
    """What a token answers. Prices in USD, changes in percent; None where there was no price before.

    mint: the address as on chain; empty where that is in lower case. time_ms: of the latest trade.
    """

    mint: str
    time_ms: int
    latest: float
    low_24h: float
    high_24h: float
    low_1h: float
    high_1h: float
    change_24h: float | None
    change_1h: float | None
    decimals: int


def accepted(state: TokenState) -> Collection[int]:
    """The bands whose prices count.

    A band is established with ticks in at least FEWEST_MINUTES minutes since the horizon, and in one of
    SHARE_OF_MINUTES of all minutes that bands have. Established bands and their neighbours count; all do while none is.
    """
    bands = state.bands
    if len(bands) == 1:
        return bands.keys()
    support = {number: band.support for number, band in bands.items()}
    need = max(FEWEST_MINUTES, -(-sum(support.values()) // SHARE_OF_MINUTES))
    established = [number for number, minutes in support.items() if minutes >= need]
    near = {number + step for number in established for step in (-1, 0, 1)}
    return near & bands.keys() or bands.keys()


def edge_hour(state: TokenState, now: int) -> int | None:
    """The hour whose ticks `evaluate` needs beside the state; None when all of them are in it."""
    start = _now(state, now) - DAY
    return None if state.newest is None or start >= state.since else hour_of(start)


def evaluate(state: TokenState, now: int, edge: Iterable[Tick] = (), *, judge: bool = True) -> Stats | None:
    """The statistics at a moment, which is not before the newest tick; None without a tick.

    edge: the stored ticks of `edge_hour`, in any order. judge: leave out prices of bands that are not accepted.
    """
    newest = state.newest
    if newest is None:
        return None
    now = _now(state, now)
    numbers = accepted(state) if judge else state.bands.keys()
    bands = [state.bands[number] for number in numbers]
    latest = max(band.last for band in bands)
    low_24h, high_24h = _extremes(bands, now - DAY, latest[2])
    low_1h, high_1h = _extremes(bands, now - HOUR, latest[2])
    day_base = _base(state, numbers, now - DAY, edge)
    return Stats(
        mint=newest[4].decode(),
        time_ms=latest[0],
        latest=latest[2],
        low_24h=low_24h,
        high_24h=high_24h,
        low_1h=low_1h,
        high_1h=high_1h,
        change_24h=_change(latest, day_base),
        change_1h=_change(latest, _base(state, numbers, now - HOUR, ())),
        decimals=newest[3],
    )


def _now(state: TokenState, now: int) -> int:
    return now if state.newest is None else max(now, state.newest[0])


def _extremes(bands: Iterable[Band], start: int, latest: float) -> tuple[float, float]:
    """The lowest and highest price after `start`; the latest one when there was no trade."""
    low, high, traded = inf, -inf, False
    for band in bands:
        lows, highs = band.lows, band.highs
        at = bisect_right(lows.times, start)
        if at < len(lows.prices):
            traded = True
            low = min(low, lows.prices[at])
            high = max(high, -highs.prices[bisect_right(highs.times, start)])
    return (low, high) if traded else (latest, latest)


def _base(state: TokenState, numbers: Collection[int], start: int, edge: Iterable[Tick]) -> Tick | None:
    """The last tick at or before `start`; one from before the horizon is not judged."""
    found = [state.bands[number].last_until(start) for number in numbers]
    if len(numbers) < len(state.bands):
        found += [band.last_until(min(start, state.horizon - 1)) for band in state.bands.values()]
    if start < state.since:
        edge = [*edge, *state.left.get(hour_of(start), ())]
        found += [tick for tick in edge if tick[0] <= start and band_of(tick[2]) in numbers]
    return max((tick for tick in found if tick is not None), default=None)


def _change(latest: Tick, base: Tick | None) -> float | None:
    return None if base is None else min((latest[2] - base[2]) / base[2] * 100, sys.float_info.max)
