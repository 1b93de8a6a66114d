"""The statistics of a token at a moment, and which prices count."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import NamedTuple, Protocol

from headwater.model.price.band import HOUR_MS, Extremes, band_of
from headwater.model.price.left import Chunk, Left
from headwater.model.price.series import Tick
from headwater.model.price.state import Told

HOUR, DAY = HOUR_MS, 24 * HOUR_MS
STALE_MS = 7 * DAY
GREATEST = sys.float_info.max
"""Changes are finite."""
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


class Figures(Protocol):
    """What a band answers; see Band."""

    @property
    def last(self) -> Tick: ...
    @property
    def support(self) -> int: ...
    def extremes_after(self, time: int) -> Extremes | None: ...
    def last_until(self, time: int) -> Tick | None: ...
    def minutes_of(self, hour: int) -> int: ...


class Evaluable(Protocol):
    """A token's state; see TokenState."""

    @property
    def newest(self) -> Told | None: ...
    @property
    def kept(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def split(self) -> Collection[int]: ...
    @property
    def left(self) -> Mapping[Chunk, Sequence[Tick]]: ...
    @property
    def bands(self) -> Mapping[int, Figures]: ...


def accepted(state: Evaluable) -> Collection[int]:
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


def missing(state: Evaluable, now: int, *, judge: bool = True) -> list[Chunk]:
    """The chunks whose ticks `evaluate` needs beside the state."""
    now = _now(state, now)
    if state.newest is None or now - DAY >= state.kept:
        return []
    return [*dict.fromkeys(chunk for start in (now - DAY, now - HOUR) for chunk in _chunks(state, start, judge=judge))]


def _chunks(state: Evaluable, start: int, *, judge: bool) -> Iterator[Chunk]:
    """Where the last tick at or before `start` may be. Of a split hour: in that minute, or in the one traded before."""
    if start >= state.kept:
        return
    hour, minute = Chunk.of_minute(start)
    yield Chunk(hour)
    if hour in state.split:
        traded = reduce(or_, (state.bands[number].minutes_of(hour) for number in _bands(state, judge=judge)))
        if traded >> minute & 1:
            yield Chunk(hour, minute)
        if before := traded & (1 << minute) - 1:
            yield Chunk(hour, before.bit_length() - 1)


def evaluate(state: Evaluable, now: int, stored: Collection[Left] = (), *, judge: bool = True) -> Stats | None:
    """The statistics at a moment, which is not before the newest tick; None without a tick.

    stored: what is stored of the `missing` chunks. judge: leave out prices of bands that are not accepted.
    """
    newest = state.newest
    if newest is None:
        return None
    now = _now(state, now)
    numbers = _bands(state, judge=judge)
    bands = [state.bands[number] for number in numbers]
    latest = max([band.last for band in bands])
    low_24h, high_24h = _extremes(bands, now - DAY, latest[2])
    low_1h, high_1h = _extremes(bands, now - HOUR, latest[2])
    day_base = _base(state, numbers, now - DAY, stored)
    return Stats(
        mint=newest[4].decode(),
        time_ms=latest[0],
        latest=latest[2],
        low_24h=low_24h,
        high_24h=high_24h,
        low_1h=low_1h,
        high_1h=high_1h,
        change_24h=_change(latest, day_base),
        change_1h=_change(latest, _base(state, numbers, now - HOUR, stored)),
        decimals=newest[3],
    )


def _bands(state: Evaluable, *, judge: bool) -> Collection[int]:
    return accepted(state) if judge else state.bands.keys()


def _now(state: Evaluable, now: int) -> int:
    return now if state.newest is None else max(now, state.newest[0])


def _extremes(bands: Sequence[Figures], start: int, latest: float) -> Extremes:
    """The lowest and highest price after `start`; the latest one when there was no trade."""
    if len(bands) == 1:  # as of most tokens
        return bands[0].extremes_after(start) or (latest, latest)
    found = [extremes for band in bands if (extremes := band.extremes_after(start)) is not None]
    return (min([low for low, _ in found]), max([high for _, high in found])) if found else (latest, latest)


def _base(state: Evaluable, numbers: Collection[int], start: int, stored: Iterable[Left]) -> Tick | None:
    """The last tick at or before `start`; one from before the horizon is not judged."""
    if len(state.bands) == 1 and start >= state.kept:
        [band] = state.bands.values()
        return band.last_until(start)
    found = [state.bands[number].last_until(start) for number in numbers]
    if len(numbers) < len(state.bands):
        found += [band.last_until(min(start, state.horizon - 1)) for band in state.bands.values()]
    if start < state.kept:
        found += [left.last_until(start, numbers) for left in stored]
        leaving = chain.from_iterable(state.left.values())
        found += [tick for tick in leaving if tick[0] <= start and band_of(tick[2]) in numbers]
    return max((tick for tick in found if tick is not None), default=None)


def _change(latest: Tick, base: Tick | None) -> float | None:
    return None if base is None else min((latest[2] - base[2]) / base[2] * 100, GREATEST)
