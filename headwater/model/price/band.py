"""A band: the ticks of one token whose prices are in [2^(b-1), 2^b).

b is the number of the band.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import frexp, inf
from typing import TypeAlias

from headwater.model.price.series import Series, Tick

Extremes: TypeAlias = tuple[float, float]
"""The lowest and the highest price of some ticks."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def band_of(price: float) -> int:
    """Return the number of the band of a price, which is the binary exponent of the price."""
    return frexp(price)[1]


def hour_of(time: int) -> int:
    """Return the start of the hour that contains a time."""
    return time - time % HOUR_MS


class Band:
    """The ticks of a band, in the form that the statistics need.

    Attributes:
        lows: A monotonic queue, for the lowest price of any window that ends at the newest tick or later. It holds each
            tick that has no later tick with the same or a lower price, so its prices increase.
        highs: A monotonic queue like `lows`, with negated prices, for the highest price.
        recent: The last tick of each millisecond since `recent_start` of the state.
        closes: The last tick of each hour before `recent_start`.
        hours: The start of each hour with ticks.
        minutes: For each hour in `hours`, a bit mask of the minutes with ticks.
        added: The number of ticks that were added since a caller set the number to 0. It is not stored.
    """

    __slots__ = ("added", "closes", "highs", "hours", "lows", "minutes", "recent")

    def __init__(
        self,
        lows: Series | None = None,
        highs: Series | None = None,
        recent: Series | None = None,
        closes: Series | None = None,
        hours: bytes = b"",
        minutes: bytes = b"",
    ) -> None:
        self.lows = Series() if lows is None else lows
        self.highs = Series() if highs is None else highs
        self.recent = Series() if recent is None else recent
        self.closes = Series() if closes is None else closes
        self.added = 0
        self.hours = array("q", hours)
        self.minutes = array("Q", minutes)

    @property
    def series(self) -> tuple[Series, Series, Series, Series]:
        """The four series, in the order of the constructor's parameters."""
        return self.lows, self.highs, self.recent, self.closes

    @property
    def last(self) -> Tick:
        """The newest tick."""
        return self.recent[-1] if self.recent else self.closes[-1]

    @property
    def active_minutes(self) -> int:
        """The number of minutes with a tick."""
        return sum(map(int.bit_count, self.minutes))

    def append(self, time: int, order: int, price: float) -> None:
        """Add a tick that is newer than all ticks of the band.

        This is the common case, so calls are inlined here.
        """
        recent = self.recent
        recent.times.append(time)
        recent.orders.append(order)
        recent.prices.append(price)
        for queue, signed in ((self.lows, price), (self.highs, -price)):
            prices = queue.prices
            if prices and prices[-1] >= signed:
                _keep_lowest(queue, time, order, signed)
            else:
                queue.times.append(time)
                queue.orders.append(order)
                prices.append(signed)
        self._mark_minute(time)
        self.added += 1

    def extend(self, ticks: Sequence[tuple[int, int, float, int, bytes]]) -> None:
        """Add sorted ticks that are all newer than the ticks of the band."""
        last_by_time = {tick[0]: tick for tick in ticks}
        recent = self.recent
        recent.times.extend(last_by_time)
        recent.orders.extend([tick[1] for tick in last_by_time.values()])
        recent.prices.extend([tick[2] for tick in last_by_time.values()])
        _extend_lowest(self.lows, [(time, order, price) for time, order, price, _, _ in reversed(ticks)])
        _extend_lowest(self.highs, [(time, order, -price) for time, order, price, _, _ in reversed(ticks)])
        for minute in {time // MINUTE_MS for time in last_by_time}:
            self._mark_minute(minute * MINUTE_MS)
        self.added += len(ticks)

    def add(self, time: int, order: int, price: float) -> None:
        """Add a tick at or after `recent_start`. Ticks may be added in any order."""
        _keep_lowest(self.lows, time, order, price)
        _keep_lowest(self.highs, time, order, -price)
        _keep_last(self.recent, time, order, price)
        self._mark_minute(time)
        self.added += 1

    def add_late(self, time: int, order: int, price: float) -> None:
        """Add a tick before `recent_start`."""
        _keep_lowest(self.lows, time, order, price)
        _keep_lowest(self.highs, time, order, -price)
        self.update_close((time, order, price))
        self._mark_minute(time)
        self.added += 1

    def update_close(self, tick: Tick) -> None:
        """Store a tick as the close of its hour, if it is the last tick of the hour."""
        closes, start = self.closes, hour_of(tick[0])
        at = closes.count_before(start)
        end = closes.count_before(start + HOUR_MS)
        if at == end or closes[at] < tick:
            closes.replace_range(at, end, tick)

    def remove_recent_before(self, time: int) -> Series:
        """Remove and return the recent ticks before a time, which is the start of a minute.

        The last removed tick of each hour becomes the close of the hour.
        """
        removed = self.recent.pop_first(self.recent.count_before(time))
        at = 0
        while at < len(removed):
            at = removed.count_before(hour_of(removed.times[at]) + HOUR_MS)
            self.update_close(removed[at - 1])
        return removed

    def drop_before(self, horizon: int) -> None:
        """Drop all ticks before the start of an hour, except the last one."""
        for series in (self.lows, self.highs):
            series.drop(series.count_before(horizon))
        self.closes.drop(self.closes.count_before(horizon) - 1)
        while self.hours and self.hours[0] < horizon:
            del self.hours[0], self.minutes[0]

    def extremes_after(self, time: int) -> Extremes | None:
        """Return the lowest and the highest price after a time; None without a tick."""
        at = self.lows.count_up_to(time)
        return (self.lows.prices[at], -self.highs.prices[self.highs.count_up_to(time)]) if at < len(self.lows) else None

    def last_up_to(self, time: int) -> Tick | None:
        """Return the last tick of the state at or before a time.

        An archived tick may lie between the returned tick and the time.
        """
        for series in (self.recent, self.closes):
            if count := series.count_up_to(time):
                return series[count - 1]
        return None

    def first_after(self, tick: Tick) -> Tick | None:
        """Return the first tick of the state after `tick`.

        An archived tick may lie between `tick` and the returned tick.
        """
        candidates = [first for series in (self.recent, self.closes) if (first := series.first_after(tick))]
        return min(candidates, default=None)

    @property
    def minutes_by_hour(self) -> dict[int, int]:
        """By hour, a bit mask of the minutes with ticks."""
        return dict(zip(self.hours, self.minutes, strict=True))

    def minute_mask(self, hour: int) -> int:
        """Return a bit mask of the minutes of an hour that have ticks."""
        at = bisect_left(self.hours, hour)
        return self.minutes[at] if at < len(self.hours) and self.hours[at] == hour else 0

    def _mark_minute(self, time: int) -> None:
        """Mark the minute of a tick in `hours` and `minutes`."""
        time_in_hour = time % HOUR_MS
        start, bit, hours = time - time_in_hour, 1 << time_in_hour // MINUTE_MS, self.hours
        if hours and hours[-1] == start:
            self.minutes[-1] |= bit
            return
        at = len(hours) - 1
        while at >= 0 and hours[at] > start:
            at -= 1
        if at >= 0 and hours[at] == start:
            self.minutes[at] |= bit
        else:
            hours.insert(at + 1, start)
            self.minutes.insert(at + 1, bit)


def _extend_lowest(queue: Series, backwards: Iterable[Tick]) -> None:
    """Append ticks, given from the newest to the oldest, to a monotonic queue."""
    lowest, kept = inf, list[Tick]()
    for tick in backwards:
        if tick[2] < lowest:
            lowest = tick[2]
            kept.append(tick)
    prices = queue.prices
    stop = len(prices)
    while stop and prices[stop - 1] >= lowest:
        stop -= 1
    queue.truncate(stop)
    queue.extend(kept[::-1])


def _keep_lowest(queue: Series, time: int, order: int, price: float) -> None:
    """Insert a tick into a monotonic queue, unless a later tick has the same or a lower price.

    Earlier ticks with the same or a higher price are removed.
    """
    prices = queue.prices
    stop = len(prices)
    if stop and queue.times[-1] >= time:
        stop = queue.index_of((time, order, price))
        if stop < len(prices) and prices[stop] <= price:
            return
    start = stop
    while start and prices[start - 1] >= price:
        start -= 1
    queue.replace_range(start, stop, (time, order, price))


def _keep_last(series: Series, time: int, order: int, price: float) -> None:
    """Insert a tick into a series that has at most one tick of each time.

    Of two ticks with the same time, the later one (by order and price) is kept.
    """
    at, tick = series.count_before(time), (time, order, price)
    end = series.count_up_to(time)
    if at == end or series[at] < tick:
        series.replace_range(at, end, tick)
