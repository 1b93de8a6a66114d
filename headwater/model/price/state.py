"""The state of a token, into which its ticks are folded."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import frexp
from operator import itemgetter

from headwater.model.price.archive import TimeBucket
from headwater.model.price.band import HOUR_MS, MINUTE_MS, Band, hour_of
from headwater.model.price.series import Tick

RECENT_MS = HOUR_MS
"""The recent window starts at the full hour at or before the time of the newest tick minus this."""
HORIZON_MS = 25 * HOUR_MS
"""The horizon is the full hour at or before the time of the newest tick minus this."""

ARCHIVE_ABOVE_TICKS = 1_024
"""When a state has more than this number of recent ticks, only the ticks of the last two minutes stay in the state."""

NO_WINDOW = -RECENT_MS - HOUR_MS
"""The start of the recent window of a state without ticks.

`next_window_at` is then 0, so the first tick with a time that is not negative advances the window.
"""

MIN_BATCH = 4
"""Fewer new ticks than this are folded one by one."""

TokenTick = tuple[int, int, float, int, bytes]
"""A tick (time, order, price) with the decimals and the address of its token. The address is b"" when it is in lower
case. The price is in USD, or in units of the quote token.
"""


def horizon_of(window_start: int) -> int:
    """Return the horizon of a state, given the start of its recent window."""
    return window_start + RECENT_MS - HORIZON_MS


def window_start_of(newest: int) -> int:
    """Return the start of the recent window, given the time of the newest tick."""
    return hour_of(newest - RECENT_MS)


class TokenState:
    """The state of a token, into which its ticks are folded.

    All times, including `now`, are in ms since the epoch.

    Attributes:
        bands: The folded ticks, by band number.
        newest: The newest tick; None before the first tick.
        window_start: The start of the recent window.
        next_window_at: A tick at or after this time advances the recent window.
        recent_start: The time from which on `recent` of each band has ticks: window_start, or a later time when there
            are too many ticks.
        ahead: Ticks with a time in the future.
        to_archive: Ticks before recent_start, by bucket. The caller stores these ticks and clears the dictionary.
        hours_archived_by_minute: The hours whose ticks are archived in buckets of a minute.
    """

    __slots__ = (
        "ahead",
        "bands",
        "hours_archived_by_minute",
        "newest",
        "next_window_at",
        "recent_start",
        "to_archive",
        "window_start",
    )

    def __init__(self) -> None:
        self.bands: dict[int, Band] = {}
        self.newest: TokenTick | None = None
        self.set_window_start(NO_WINDOW)
        self.recent_start = self.window_start
        self.ahead: set[TokenTick] = set()
        self.to_archive: dict[TimeBucket, list[Tick]] = {}
        self.hours_archived_by_minute: set[int] = set()

    def set_window_start(self, window_start: int) -> None:
        """Set the start of the recent window."""
        self.window_start = window_start
        self.next_window_at = window_start + RECENT_MS + HOUR_MS

    @property
    def horizon(self) -> int:
        """The start of the period for which each band keeps every tick that the statistics need.

        Of the ticks before the horizon, each band keeps only the last one.
        """
        return horizon_of(self.window_start)

    def fold(self, tick: TokenTick, now: int) -> None:
        """Fold a tick. A tick with a time in the future is kept in `ahead`."""
        time, order, price, _, _ = tick
        if time > now:
            self.ahead.add(tick)
            return
        previous = self.newest
        if previous is None or tick > previous:
            self.newest = tick
            if time >= self.next_window_at:
                self._advance_window(window_start_of(time))
        number = frexp(price)[1]  # band_of, without the call
        band = self.bands.get(number)
        if band is None:
            band = self.bands[number] = Band()
        if previous is None or time > previous[0]:
            band.append(time, order, price)
        elif time >= self.recent_start:
            band.add(time, order, price)
        elif time >= self.horizon:
            band.add_late(time, order, price)
            self.to_archive.setdefault(self._bucket_of(time), []).append((time, order, price))
        else:
            band.update_close((time, order, price))
            band.drop_before(self.horizon)

    def fold_all(self, ticks: Iterable[TokenTick], now: int) -> None:
        """Fold ticks, which may have any order.

        Ticks that are newer than the state are folded together, band by band.
        """
        ordered = sorted(ticks)
        start = 0 if self.newest is None else bisect_right(ordered, self.newest[0], key=itemgetter(0))
        end = bisect_right(ordered, now, lo=start, key=itemgetter(0))
        if end - start < MIN_BATCH:
            start = end
        for tick in (*ordered[:start], *ordered[end:]):
            self.fold(tick, now)
        if start < end:
            self._extend(ordered[start:end])

    def _extend(self, ticks: Sequence[TokenTick]) -> None:
        """Fold sorted ticks that are all newer than the state."""
        ticks_by_band: dict[int, list[TokenTick]] = {}
        for tick in ticks:
            ticks_by_band.setdefault(frexp(tick[2])[1], []).append(tick)
        for number, ticks_of_band in ticks_by_band.items():
            self.bands.setdefault(number, Band()).extend(ticks_of_band)
        self.newest = ticks[-1]
        time = ticks[-1][0]
        if time >= self.next_window_at:
            self._advance_window(window_start_of(time))

    def fold_due(self, now: int) -> None:
        """Fold the ticks in `ahead` whose time is not in the future any more."""
        due = sorted(tick for tick in self.ahead if tick[0] <= now)
        self.ahead.difference_update(due)
        for tick in due:
            self.fold(tick, now)

    def archive_excess_ticks(self) -> None:
        """Move old ticks to `to_archive` when there are more than ARCHIVE_ABOVE_TICKS.

        The ticks of the last two minutes stay.

        Call this before the state is stored. The state then has at most one recent tick for each band and each
        millisecond of two minutes.
        """
        if self.newest is None or sum(len(band.recent) for band in self.bands.values()) <= ARCHIVE_ABOVE_TICKS:
            return
        time = self.newest[0]
        recent_start = time - time % MINUTE_MS - MINUTE_MS
        if recent_start > self.recent_start:
            self.hours_archived_by_minute.update(range(hour_of(self.recent_start), recent_start, HOUR_MS))
            self._archive_before(recent_start)

    def _advance_window(self, window_start: int) -> None:
        """Advance the recent window: archive earlier ticks, and drop those before the horizon."""
        self.set_window_start(window_start)
        self._archive_before(max(window_start, self.recent_start))
        horizon = self.horizon
        for band in self.bands.values():
            band.drop_before(horizon)
        self.hours_archived_by_minute = {hour for hour in self.hours_archived_by_minute if hour >= horizon}

    def _archive_before(self, time: int) -> None:
        self.recent_start = time
        for band in self.bands.values():
            removed = band.remove_recent_before(time)
            start = removed.count_before(self.horizon)
            while start < len(removed):
                bucket = self._bucket_of(removed.times[start])
                end = removed.count_before(bucket.end)
                self.to_archive.setdefault(bucket, []).extend(removed.ticks(start, end))
                start = end

    def _bucket_of(self, time: int) -> TimeBucket:
        hour = hour_of(time)
        return TimeBucket.of_minute(time) if hour in self.hours_archived_by_minute else TimeBucket(hour)
