"""The statistics of a token at a time, and the decision which prices count."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import NamedTuple, Protocol

from headwater.model.price.archive import ArchivedTicks, TimeBucket
from headwater.model.price.band import HOUR_MS, Extremes, band_of
from headwater.model.price.series import Tick
from headwater.model.price.state import PricedTick

HOUR, DAY = HOUR_MS, 24 * HOUR_MS
STALE_MS = 7 * DAY
MAX_CHANGE = sys.float_info.max
"""Changes in percent are capped at this value, so that they stay finite."""
MIN_ACTIVE_MINUTES = 3
ESTABLISHED_SHARE = 100
"""An established band has ticks in at least one of this many active minutes of all bands."""


class Stats(NamedTuple):
    """The statistics of a token.

    Prices are in USD, changes in percent; None where there was no price before.

    Attributes:
        address: The address of the token as on chain; empty when it is in lower case.
        time_ms: The time of the latest trade.
        order: The order of the latest trade among the trades of its time.
        unaccepted_since: The time of the first trade that is later than the latest accepted trade. Its price is not
            accepted yet. None when there is no such trade.
    """

    address: str
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
    unaccepted_since: int | None = None


class BandFigures(Protocol):
    """What the evaluation needs of a band. See Band for the methods.

    Implementations: Band, and BandView, TailedBand and MergedBand in view.py.
    """

    @property
    def last(self) -> Tick: ...
    @property
    def active_minutes(self) -> int: ...
    def extremes_after(self, time: int) -> Extremes | None: ...
    def last_until(self, time: int) -> Tick | None: ...
    def first_after(self, tick: Tick) -> Tick | None: ...
    def minute_mask(self, hour: int) -> int: ...
    @property
    def minutes_by_hour(self) -> Mapping[int, int]: ...


class EvaluableState(Protocol):
    """A state of a token that can be evaluated; see TokenState.

    StateView in view.py implements it too.
    """

    @property
    def newest(self) -> PricedTick | None: ...
    @property
    def recent_start(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def minute_hours(self) -> Collection[int]: ...
    @property
    def to_archive(self) -> Mapping[TimeBucket, Sequence[Tick]]: ...
    @property
    def bands(self) -> Mapping[int, BandFigures]: ...


def accepted_bands(state: EvaluableState) -> Collection[int]:
    """Return the bands whose prices count.

    A band is established when it has ticks in at least MIN_ACTIVE_MINUTES minutes since the horizon, and in at least
    one in ESTABLISHED_SHARE of the active minutes of all bands. Established bands and their neighbours are accepted.
    While no band is established, all bands are accepted.
    """
    bands = state.bands
    if len(bands) == 1:
        return bands.keys()
    support = {number: band.active_minutes for number, band in bands.items()}
    need = max(MIN_ACTIVE_MINUTES, -(-sum(support.values()) // ESTABLISHED_SHARE))
    established = [number for number, minutes in support.items() if minutes >= need]
    near = {number + step for number in established for step in (-1, 0, 1)}
    return near & bands.keys() or bands.keys()


def needed_buckets(
    state: EvaluableState, now: int, *, filter_outliers: bool = True, part: EvaluableState | None = None
) -> list[TimeBucket]:
    """Return the archived buckets that `evaluate` needs in addition to the state.

    With `part`, one of the states that `state` was merged from, the buckets of this part are returned.
    """
    part = part or state
    if state.newest is None or part.newest is None:
        return []
    now = _now(state, now)
    band_numbers = _counted_bands(state, filter_outliers=filter_outliers)
    wanted = [
        bucket
        for start in (now - DAY, now - HOUR)
        if start < part.recent_start
        for bucket in base_buckets(part, start, band_numbers)
    ]
    if len(band_numbers) < len(state.bands):
        wanted += _held_buckets(part, _latest(state, band_numbers), state.bands.keys() - band_numbers)
    return [*dict.fromkeys(wanted)]


def base_buckets(state: EvaluableState, start: int, band_numbers: Collection[int]) -> Iterator[TimeBucket]:
    """Yield the buckets that may contain the last tick at or before `start`.

    When the hour is archived by minute, these are the minute of `start` and the last earlier minute with ticks.
    """
    hour, minute = TimeBucket.of_minute(start)
    yield TimeBucket(hour)
    if hour in state.minute_hours:
        mask = _minute_mask(state, hour, band_numbers)
        if mask >> minute & 1:
            yield TimeBucket(hour, minute)
        if before := mask & (1 << minute) - 1:
            yield TimeBucket(hour, before.bit_length() - 1)


def _held_buckets(state: EvaluableState, latest: Tick, rejected: Collection[int]) -> Iterator[TimeBucket]:
    """Yield the buckets that may contain the first rejected tick after the accepted ones."""
    start, minute = TimeBucket.of_minute(latest[0])
    for hour in range(start, state.recent_start, HOUR):
        mask = _minute_mask(state, hour, rejected)
        if hour == start:
            mask &= -1 << minute
        if not mask:
            continue
        yield TimeBucket(hour)
        first = (mask & -mask).bit_length() - 1
        later = mask & mask - 1
        is_certain = (hour, first) != (start, minute)
        if hour in state.minute_hours:
            yield TimeBucket(hour, first)
            if not is_certain and later:
                yield TimeBucket(hour, (later & -later).bit_length() - 1)
        if is_certain or later:
            return


def _minute_mask(state: EvaluableState, hour: int, band_numbers: Collection[int]) -> int:
    """Return a bit mask of the minutes of an hour in which one of the bands has ticks."""
    return reduce(or_, (state.bands[number].minute_mask(hour) for number in band_numbers if number in state.bands), 0)


def evaluate(
    state: EvaluableState, now: int, archived: Collection[ArchivedTicks] = (), *, filter_outliers: bool = True
) -> Stats | None:
    """Return the statistics at a time; None without ticks.

    A time before the newest tick is replaced by that tick's.

    `archived` has the archived ticks of the needed buckets. With `filter_outliers`, the prices of bands that are not
    accepted are left out.
    """
    newest = state.newest
    if newest is None:
        return None
    now = _now(state, now)
    band_numbers = _counted_bands(state, filter_outliers=filter_outliers)
    bands = [state.bands[number] for number in band_numbers]
    latest = _latest(state, band_numbers)
    low_24h, high_24h = _extremes(bands, now - DAY, latest[2])
    low_1h, high_1h = _extremes(bands, now - HOUR, latest[2])
    day_base = _base(state, band_numbers, now - DAY, archived)
    return Stats(
        address=newest[4].decode(),
        time_ms=latest[0],
        latest=latest[2],
        low_24h=low_24h,
        high_24h=high_24h,
        low_1h=low_1h,
        high_1h=high_1h,
        change_24h=_change(latest, day_base),
        change_1h=_change(latest, _base(state, band_numbers, now - HOUR, archived)),
        decimals=newest[3],
        order=latest[1],
        unaccepted_since=_unaccepted_since(state, band_numbers, latest, archived)
        if len(band_numbers) < len(state.bands)
        else None,
    )


def _latest(state: EvaluableState, band_numbers: Iterable[int]) -> Tick:
    return max([state.bands[number].last for number in band_numbers])


def _unaccepted_since(
    state: EvaluableState, band_numbers: Collection[int], latest: Tick, archived: Iterable[ArchivedTicks]
) -> int | None:
    """Return the time of the first tick after the latest accepted tick.

    Returns None when there is none. Such a tick is always in a rejected band.
    """
    rejected = state.bands.keys() - band_numbers
    if max([state.bands[number].last for number in rejected]) < latest:
        return None
    found = [state.bands[number].first_after(latest) for number in rejected]
    found += [ticks.first_after(latest, rejected) for ticks in archived]
    pending = chain.from_iterable(state.to_archive.values())
    found += [tick for tick in pending if tick > latest and band_of(tick[2]) in rejected]
    return min(tick for tick in found if tick is not None)[0]


def _counted_bands(state: EvaluableState, *, filter_outliers: bool) -> Collection[int]:
    return accepted_bands(state) if filter_outliers else state.bands.keys()


def _now(state: EvaluableState, now: int) -> int:
    return now if state.newest is None else max(now, state.newest[0])


def _extremes(bands: Sequence[BandFigures], start: int, latest: float) -> Extremes:
    """Return the lowest and the highest price after `start`.

    Without a trade, both are the latest price.
    """
    if len(bands) == 1:  # a shortcut: most tokens have a single band
        return bands[0].extremes_after(start) or (latest, latest)
    found = [extremes for band in bands if (extremes := band.extremes_after(start)) is not None]
    return (min([low for low, _ in found]), max([high for _, high in found])) if found else (latest, latest)


def _base(
    state: EvaluableState, band_numbers: Collection[int], start: int, archived: Iterable[ArchivedTicks]
) -> Tick | None:
    """Return the last tick of an accepted band at or before `start`.

    A tick from before the horizon counts in any band.
    """
    if len(state.bands) == 1 and start >= state.recent_start:
        [band] = state.bands.values()
        return band.last_until(start)
    found = [state.bands[number].last_until(start) for number in band_numbers]
    if len(band_numbers) < len(state.bands):
        found += [band.last_until(min(start, state.horizon - 1)) for band in state.bands.values()]
    if start < state.recent_start:
        found += [ticks.last_until(start, band_numbers) for ticks in archived]
        pending = chain.from_iterable(state.to_archive.values())
        found += [tick for tick in pending if tick[0] <= start and band_of(tick[2]) in band_numbers]
    return max((tick for tick in found if tick is not None), default=None)


def _change(latest: Tick, base: Tick | None) -> float | None:
    return None if base is None else min((latest[2] - base[2]) / base[2] * 100, MAX_CHANGE)
