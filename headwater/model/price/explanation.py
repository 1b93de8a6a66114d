"""How the statistics of a token come about.

An explanation has the ticks of the lows and highs, the bands, and the newest ticks that are accepted or unaccepted.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from headwater.model.price.band import HOUR_MS, MINUTE_MS
from headwater.model.price.series import Tick
from headwater.model.price.state import TokenState
from headwater.model.price.stats import DAY, HOUR, EvaluableState, accepted_bands, required_minutes
from headwater.model.price.view import merge_states

POINT_MS = 5 * MINUTE_MS
"""The interval of the points of a history from `recent_start` on. Before it, the interval is an hour."""


class Window(NamedTuple):
    """The trades with the lowest and the highest price since a time.

    Of several trades with the lowest price, `low` is the last one; the same holds for `high`. Both are None without a
    trade.
    """

    start_ms: int
    low: Tick | None
    high: Tick | None


class BandSummary(NamedTuple):
    """A band of a token.

    Attributes:
        number: The prices of the band are from 2^(number − 1) up to, not including, 2^number.
        active_minutes: The minutes since the horizon in which the band has ticks.
        last: The newest tick of the band.
    """

    number: int
    active_minutes: int
    is_established: bool
    is_accepted: bool
    last: Tick


class Explanation(NamedTuple):
    """How the statistics of a token come about. Times are in ms since the epoch.

    Attributes:
        now_ms: The end of the windows.
        horizon_ms: Only minutes after this time count for the bands.
        required_minutes: The active minutes that make a band established.
        day: The last 24 hours.
        hour: The last hour.
        bands: The bands, the one with the most active minutes first.
        accepted: The newest ticks in accepted bands, newest first.
        unaccepted: The newest ticks in unaccepted bands, newest first.
    """

    now_ms: int
    horizon_ms: int
    required_minutes: int
    day: Window
    hour: Window
    bands: Sequence[BandSummary]
    accepted: Sequence[Tick]
    unaccepted: Sequence[Tick]


def explain(states: Sequence[TokenState], now: int, limit: int, *, filter_outliers: bool) -> Explanation | None:
    """Explain the statistics of a token at a time; None without ticks.

    Args:
        states: The state of the token's USD ticks, and that of its quoted ticks when it has any.
        limit: The most bands, accepted ticks and unaccepted ticks that are returned.
    """
    merged = merge_states(states)
    if merged.newest is None:
        return None
    now = max(now, merged.newest[0])
    accepted = accepted_bands(merged, filter_outliers=filter_outliers)
    required = required_minutes(band.active_minutes for band in merged.bands.values())
    bands = [
        BandSummary(number, band.active_minutes, band.active_minutes >= required, number in accepted, band.last)
        for number, band in merged.bands.items()
    ]
    return Explanation(
        now_ms=now,
        horizon_ms=merged.horizon,
        required_minutes=required,
        day=_window(states, accepted, now - DAY),
        hour=_window(states, accepted, now - HOUR),
        bands=nlargest(limit, bands, key=itemgetter(1)),
        accepted=nlargest(limit, _ticks(states, accepted, limit)),
        unaccepted=nlargest(limit, _ticks(states, merged.bands.keys() - accepted, limit)),
    )


def history(state: EvaluableState, now: int, *, filter_outliers: bool) -> list[Tick]:
    """Return the last accepted tick of each interval since the horizon, oldest first.

    Before `recent_start`, an interval is one hour long; from then on, it is 5 minutes long. An interval without ticks
    has no point.
    """
    if state.newest is None:
        return []
    numbers = accepted_bands(state, filter_outliers=filter_outliers)
    end = max(now, state.newest[0]) + 1
    start = max(state.recent_start, state.horizon)
    ends = {*range(state.horizon + HOUR_MS, start, HOUR_MS), start, *range(start + POINT_MS, end, POINT_MS), end}
    ticks = {tick for time in ends if (tick := _last_before(state, numbers, time))}
    return sorted(tick for tick in ticks if tick[0] >= state.horizon)


def _last_before(state: EvaluableState, numbers: Collection[int], time: int) -> Tick | None:
    candidates = [state.bands[number].last_up_to(time - 1) for number in numbers]
    return max((tick for tick in candidates if tick), default=None)


def _window(states: Sequence[TokenState], numbers: Collection[int], start: int) -> Window:
    bands = [state.bands[number] for state in states for number in numbers if number in state.bands]
    lows = [band.lows[at] for band in bands if (at := band.lows.count_up_to(start)) < len(band.lows)]
    highs = [band.highs[at] for band in bands if (at := band.highs.count_up_to(start)) < len(band.highs)]
    low = min(lows, key=lambda tick: (tick[2], -tick[0]), default=None)
    high = min(highs, key=lambda tick: (tick[2], -tick[0]), default=None)
    return Window(start, low, high and (high[0], high[1], -high[2]))


def _ticks(states: Iterable[TokenState], numbers: Collection[int], limit: int) -> Iterator[Tick]:
    """Yield the newest ticks from `recent_start` on, and the last tick of each earlier hour."""
    for state in states:
        for number in numbers:
            if band := state.bands.get(number):
                for series in (band.recent, band.closes):
                    yield from series.ticks(max(0, len(series) - limit), len(series))
