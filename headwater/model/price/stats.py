"""The statistics of a token at a time, and the decision which of its bands are accepted."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from math import ceil
from operator import or_
from typing import NamedTuple, Protocol

from headwater.model.price.archive import ArchivedTicks, TimeBucket
from headwater.model.price.band import HOUR_MS, Extremes, band_of
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenTick

HOUR, DAY = HOUR_MS, 24 * HOUR_MS
STALE_MS = 7 * DAY
"""A token without a trade for this long has no price."""
MAX_CHANGE = sys.float_info.max
"""Changes in percent are capped at this value, so that they stay finite."""
MIN_ACTIVE_MINUTES = 3
ESTABLISHED_MINUTES_DIVISOR = 100
"""The active minutes of all bands, divided by this number, are the minimum of active minutes of an established band."""


class Stats(NamedTuple):
    """The statistics of a token. Prices are in USD, and changes in percent.

    A change is None when the token had no price at the start of the period.

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


class EvaluableBand(Protocol):
    """A band of a state, as the evaluation reads it. See Band for the methods.

    Band implements this protocol, and BandView, TailedBand and MergedBand in view.py.
    """

    @property
    def last(self) -> Tick: ...
    @property
    def active_minutes(self) -> int: ...
    def extremes_after(self, time: int) -> Extremes | None: ...
    def last_up_to(self, time: int) -> Tick | None: ...
    def first_after(self, tick: Tick) -> Tick | None: ...
    def minute_mask(self, hour: int) -> int: ...
    @property
    def minutes_by_hour(self) -> Mapping[int, int]: ...


class EvaluableState(Protocol):
    """A state, as the evaluation reads it. See TokenState for the attributes.

    TokenState implements this protocol, and StateView in view.py.
    """

    @property
    def newest(self) -> TokenTick | None: ...
    @property
    def recent_start(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def hours_archived_by_minute(self) -> Collection[int]: ...
    @property
    def to_archive(self) -> Mapping[TimeBucket, Sequence[Tick]]: ...
    @property
    def bands(self) -> Mapping[int, EvaluableBand]: ...


def accepted_bands(state: EvaluableState, *, filter_outliers: bool = True) -> Collection[int]:
    """Return the accepted bands, whose prices the statistics use.

    Without the filter of outliers, all bands are accepted.

    A minute in which a band has a tick is an active minute of the band. A band is established when it has at least
    MIN_ACTIVE_MINUTES active minutes since the horizon, and at least the sum of the active minutes of all bands divided
    by ESTABLISHED_MINUTES_DIVISOR. Established bands and their neighbours are accepted. While no band is established,
    all bands are accepted.
    """
    bands = state.bands
    if len(bands) == 1 or not filter_outliers:
        return bands.keys()
    active_minutes = {number: band.active_minutes for number, band in bands.items()}
    required = required_minutes(active_minutes.values())
    established = [number for number, minutes in active_minutes.items() if minutes >= required]
    accepted = {number + step for number in established for step in (-1, 0, 1)}
    return accepted & bands.keys() or bands.keys()


def required_minutes(active_minutes: Iterable[int]) -> int:
    """Return the active minutes that make a band established, from the minutes of each band."""
    return max(MIN_ACTIVE_MINUTES, ceil(sum(active_minutes) / ESTABLISHED_MINUTES_DIVISOR))


def needed_buckets(
    state: EvaluableState, now: int, *, filter_outliers: bool = True, buckets_of: EvaluableState | None = None
) -> list[TimeBucket]:
    """Return the archived buckets that `evaluate` needs in addition to the state.

    `state` may be the result of `merge_states` (view.py). Then call this function once for each of the merged states,
    as `buckets_of`: only the archived buckets of that state are returned.
    """
    unmerged = buckets_of or state
    if state.newest is None or unmerged.newest is None:
        return []
    now = _evaluation_time(state, now)
    band_numbers = accepted_bands(state, filter_outliers=filter_outliers)
    buckets = [
        bucket
        for start in (now - DAY, now - HOUR)
        if start < unmerged.recent_start
        for bucket in base_buckets(unmerged, start, band_numbers)
    ]
    if len(band_numbers) < len(state.bands):
        latest, unaccepted = _latest(state, band_numbers), state.bands.keys() - band_numbers
        buckets += _first_unaccepted_buckets(unmerged, latest, unaccepted)
    return [*dict.fromkeys(buckets)]


def base_buckets(state: EvaluableState, start: int, band_numbers: Collection[int]) -> Iterator[TimeBucket]:
    """Yield the buckets that may contain the last tick at or before `start`.

    The bucket of the whole hour is always one of them, because ticks may have been archived before the hour was
    archived by minute. When it is archived by minute, the others are the minute of `start`, if it has ticks, and the
    last earlier minute with ticks.
    """
    hour, minute = TimeBucket.of_minute(start)
    yield TimeBucket(hour)
    if hour in state.hours_archived_by_minute:
        minutes = [number for number in _minutes_with_ticks(state, hour, band_numbers) if number <= minute]
        # The ticks in the minute of `start` may all be after `start`.
        count = 2 if minutes[-1:] == [minute] else 1
        yield from (TimeBucket(hour, number) for number in minutes[-count:])


def _first_unaccepted_buckets(state: EvaluableState, latest: Tick, unaccepted: Collection[int]) -> Iterator[TimeBucket]:
    """Yield the buckets that may contain the first unaccepted tick after an accepted tick."""
    bucket_of_latest = TimeBucket.of_minute(latest[0])
    for hour in range(bucket_of_latest.hour, state.recent_start, HOUR):
        minutes = _minutes_with_ticks(state, hour, unaccepted)
        if hour == bucket_of_latest.hour:
            minutes = [number for number in minutes if number >= bucket_of_latest.minute]
        if not minutes:
            continue
        # The unaccepted ticks in the minute of the latest accepted tick may all be before this tick.
        count = 2 if TimeBucket(hour, minutes[0]) == bucket_of_latest else 1
        yield TimeBucket(hour)
        if hour in state.hours_archived_by_minute:
            yield from (TimeBucket(hour, number) for number in minutes[:count])
        if len(minutes) >= count:
            return


def _minutes_with_ticks(state: EvaluableState, hour: int, band_numbers: Collection[int]) -> list[int]:
    """Return the minutes of an hour in which one of the bands has ticks, in ascending order."""
    bands = [state.bands[number] for number in band_numbers if number in state.bands]
    mask = reduce(or_, (band.minute_mask(hour) for band in bands), 0)
    return [minute for minute in range(60) if mask >> minute & 1]


def evaluate(
    state: EvaluableState, now: int, archived: Collection[ArchivedTicks] = (), *, filter_outliers: bool = True
) -> Stats | None:
    """Return the statistics of a token at a time; None without ticks.

    Args:
        state: The state of the token.
        now: The time. When the newest tick is later, the time of this tick is used instead.
        archived: The archived ticks of the needed buckets.
        filter_outliers: Whether the prices of bands that are not accepted are left out.
    """
    newest = state.newest
    if newest is None:
        return None
    now = _evaluation_time(state, now)
    band_numbers = accepted_bands(state, filter_outliers=filter_outliers)
    bands = [state.bands[number] for number in band_numbers]
    latest = _latest(state, band_numbers)
    low_24h, high_24h = _extremes(bands, now - DAY, latest[2])
    low_1h, high_1h = _extremes(bands, now - HOUR, latest[2])
    return Stats(
        address=newest[4].decode(),
        time_ms=latest[0],
        latest=latest[2],
        low_24h=low_24h,
        high_24h=high_24h,
        low_1h=low_1h,
        high_1h=high_1h,
        change_24h=_change(latest, _base(state, band_numbers, now - DAY, archived)),
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

    Such a tick is always in an unaccepted band. Returns None when there is none.
    """
    unaccepted = state.bands.keys() - band_numbers
    if max([state.bands[number].last for number in unaccepted]) < latest:
        return None
    candidates = [state.bands[number].first_after(latest) for number in unaccepted]
    candidates += [ticks.first_after(latest, unaccepted) for ticks in archived]
    to_archive = chain.from_iterable(state.to_archive.values())
    candidates += [tick for tick in to_archive if tick > latest and band_of(tick[2]) in unaccepted]
    return min(tick for tick in candidates if tick is not None)[0]


def _evaluation_time(state: EvaluableState, now: int) -> int:
    return now if state.newest is None else max(now, state.newest[0])


def _extremes(bands: Sequence[EvaluableBand], start: int, latest: float) -> Extremes:
    """Return the lowest and the highest price after `start`.

    Without a trade, both are the latest price.
    """
    if len(bands) == 1:  # a shortcut: most tokens have a single band
        return bands[0].extremes_after(start) or (latest, latest)
    all_extremes = [extremes for band in bands if (extremes := band.extremes_after(start)) is not None]
    if not all_extremes:
        return latest, latest
    return min([low for low, _ in all_extremes]), max([high for _, high in all_extremes])


def _base(
    state: EvaluableState, band_numbers: Collection[int], start: int, archived: Iterable[ArchivedTicks]
) -> Tick | None:
    """Return the tick to which a change since `start` refers.

    This is the last tick at or before `start`, in an accepted band. Before the horizon, it may be in any band, because
    only the minutes since the horizon decide whether a band is accepted.
    """
    if len(state.bands) == 1 and start >= state.recent_start:
        [band] = state.bands.values()
        return band.last_up_to(start)
    candidates = [state.bands[number].last_up_to(start) for number in band_numbers]
    if len(band_numbers) < len(state.bands):
        candidates += [band.last_up_to(min(start, state.horizon - 1)) for band in state.bands.values()]
    if start < state.recent_start:
        candidates += [ticks.last_up_to(start, band_numbers) for ticks in archived]
        to_archive = chain.from_iterable(state.to_archive.values())
        candidates += [tick for tick in to_archive if tick[0] <= start and band_of(tick[2]) in band_numbers]
    return max((tick for tick in candidates if tick is not None), default=None)


def _change(latest: Tick, base: Tick | None) -> float | None:
    return None if base is None else min((latest[2] - base[2]) / base[2] * 100, MAX_CHANGE)
