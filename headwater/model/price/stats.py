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
from headwater.model.price.state import PricedTick

HOUR, DAY = HOUR_MS, 24 * HOUR_MS
STALE_MS = 7 * DAY
GREATEST = sys.float_info.max
"""Changes are finite."""
FEWEST_MINUTES = 3
SHARE_OF_MINUTES = 100
"""One minute in so many has to have a tick in an established band."""


class Stats(NamedTuple):
    """The statistics of a token. Prices are in USD, changes in percent; None where there was no price before.

    Attributes:
        mint: The address as on chain; empty where that is in lower case.
        time_ms: The time of the latest trade.
        order: The place of the latest trade among those of its time.
        held_since: The time of the first trade after the latest one whose price is not accepted yet; None without one.
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
    order: int
    held_since: int | None = None


class Figures(Protocol):
    """The figures of a band; see Band."""

    @property
    def last(self) -> Tick: ...
    @property
    def support(self) -> int: ...
    def extremes_after(self, time: int) -> Extremes | None: ...
    def last_until(self, time: int) -> Tick | None: ...
    def first_after(self, tick: Tick) -> Tick | None: ...
    def minutes_of(self, hour: int) -> int: ...
    @property
    def traded(self) -> Mapping[int, int]: ...


class Evaluable(Protocol):
    """A token's state; see TokenState."""

    @property
    def newest(self) -> PricedTick | None: ...
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


def missing(state: Evaluable, now: int, *, filter_outliers: bool = True, part: Evaluable | None = None) -> list[Chunk]:
    """The chunks whose ticks `evaluate` needs beside the state.

    part: One of the states that `state` is merged from, when the chunks of that one are asked for.
    """
    part = part or state
    if state.newest is None or part.newest is None:
        return []
    now = _now(state, now)
    numbers = _bands(state, filter_outliers=filter_outliers)
    wanted = [
        chunk for start in (now - DAY, now - HOUR) if start < part.kept for chunk in base_chunks(part, start, numbers)
    ]
    if len(numbers) < len(state.bands):
        wanted += _held_chunks(part, _latest(state, numbers), state.bands.keys() - numbers)
    return [*dict.fromkeys(wanted)]


def base_chunks(state: Evaluable, start: int, numbers: Collection[int]) -> Iterator[Chunk]:
    """Where the last tick at or before `start` may be. Of a split hour: in that minute, or in the one traded before."""
    hour, minute = Chunk.of_minute(start)
    yield Chunk(hour)
    if hour in state.split:
        traded = _traded(state, hour, numbers)
        if traded >> minute & 1:
            yield Chunk(hour, minute)
        if before := traded & (1 << minute) - 1:
            yield Chunk(hour, before.bit_length() - 1)


def _held_chunks(state: Evaluable, latest: Tick, rejected: Collection[int]) -> Iterator[Chunk]:
    """Where the first tick after the latest accepted one may be, among those that are not accepted."""
    start, minute = Chunk.of_minute(latest[0])
    for hour in range(start, state.kept, HOUR):
        traded = _traded(state, hour, rejected)
        if hour == start:
            traded &= -1 << minute
        if not traded:
            continue
        yield Chunk(hour)
        first = (traded & -traded).bit_length() - 1
        later = traded & traded - 1
        is_certain = (hour, first) != (start, minute)
        if hour in state.split:
            yield Chunk(hour, first)
            if not is_certain and later:
                yield Chunk(hour, (later & -later).bit_length() - 1)
        if is_certain or later:
            return


def _traded(state: Evaluable, hour: int, numbers: Collection[int]) -> int:
    """A bit for each minute of an hour with a tick in one of the bands."""
    return reduce(or_, (state.bands[number].minutes_of(hour) for number in numbers if number in state.bands), 0)


def evaluate(
    state: Evaluable, now: int, stored: Collection[Left] = (), *, filter_outliers: bool = True
) -> Stats | None:
    """The statistics at a moment, which is not before the newest tick; None without a tick.

    stored: what is stored of the `missing` chunks. filter_outliers: leave out prices of bands that are not accepted.
    """
    newest = state.newest
    if newest is None:
        return None
    now = _now(state, now)
    numbers = _bands(state, filter_outliers=filter_outliers)
    bands = [state.bands[number] for number in numbers]
    latest = _latest(state, numbers)
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
        order=latest[1],
        held_since=_held_since(state, numbers, latest, stored) if len(numbers) < len(state.bands) else None,
    )


def _latest(state: Evaluable, numbers: Iterable[int]) -> Tick:
    return max([state.bands[number].last for number in numbers])


def _held_since(state: Evaluable, numbers: Collection[int], latest: Tick, stored: Iterable[Left]) -> int | None:
    """The time of the first tick after the latest accepted one; all of those are in bands that are not accepted."""
    rejected = state.bands.keys() - numbers
    if max([state.bands[number].last for number in rejected]) < latest:
        return None
    found = [state.bands[number].first_after(latest) for number in rejected]
    found += [left.first_after(latest, rejected) for left in stored]
    leaving = chain.from_iterable(state.left.values())
    found += [tick for tick in leaving if tick > latest and band_of(tick[2]) in rejected]
    return min(tick for tick in found if tick is not None)[0]


def _bands(state: Evaluable, *, filter_outliers: bool) -> Collection[int]:
    return accepted(state) if filter_outliers else state.bands.keys()


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
