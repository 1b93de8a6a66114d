"""The ticks of one token whose prices lie within a factor of two: [2^(b-1), 2^b) for the band b."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import frexp, inf
from typing import TypeAlias

from headwater.model.price.series import Series, Tick

Extremes: TypeAlias = tuple[float, float]
"""The lowest and the highest price."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def band_of(price: float) -> int:
    """The band of a price: its binary exponent."""
    return frexp(price)[1]


def hour_of(time: int) -> int:
    """The start of the hour that a time lies in."""
    return time - time % HOUR_MS


class Band:
    """What is kept of the ticks of a band.

    lows, highs: for the lowest and highest price of any window that ends at the newest tick or later. A tick is in
    `lows` when no later one is as low: prices rise. `highs` is the same with negated prices.
    recent: the last tick of every moment of the newest hours or minutes. closes: the last tick of every hour of what is
    before those.
    hours, minutes: the hours with ticks, and for each a bit per minute with one. fresh: ticks that were taken since
    somebody set it to 0; it is not stored.
    """

    __slots__ = ("closes", "fresh", "highs", "hours", "lows", "minutes", "recent")

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
        self.fresh = 0
        self.hours = array("q", hours)
        self.minutes = array("Q", minutes)

    @property
    def series(self) -> tuple[Series, Series, Series, Series]:
        """All of its ticks, in the order of the constructor."""
        return self.lows, self.highs, self.recent, self.closes

    @property
    def last(self) -> Tick:
        """The newest tick."""
        return self.recent[-1] if self.recent else self.closes[-1]

    @property
    def support(self) -> int:
        """The number of minutes with a tick."""
        return sum(map(int.bit_count, self.minutes))

    def append(self, time: int, order: int, price: float) -> None:
        """Take a tick that is later than all: most are, so here nothing is called that need not be."""
        recent = self.recent
        recent.times.append(time)
        recent.orders.append(order)
        recent.prices.append(price)
        for chain, signed in ((self.lows, price), (self.highs, -price)):
            prices = chain.prices
            if prices and prices[-1] >= signed:
                _keep_lowest(chain, time, order, signed)
            else:
                chain.times.append(time)
                chain.orders.append(order)
                prices.append(signed)
        self._mark(time)
        self.fresh += 1

    def extend(self, ticks: Sequence[tuple[int, int, float, int, bytes]]) -> None:
        """Take ticks in order that are all later than all."""
        moments = {tick[0]: tick for tick in ticks}
        recent = self.recent
        recent.times.extend(moments)
        recent.orders.extend([tick[1] for tick in moments.values()])
        recent.prices.extend([tick[2] for tick in moments.values()])
        _extend_lowest(self.lows, [(time, order, price) for time, order, price, _, _ in reversed(ticks)])
        _extend_lowest(self.highs, [(time, order, -price) for time, order, price, _, _ in reversed(ticks)])
        for minute in {time // MINUTE_MS for time in moments}:
            self._mark(minute * MINUTE_MS)
        self.fresh += len(ticks)

    def add(self, time: int, order: int, price: float) -> None:
        """Take a tick that is recent."""
        _keep_lowest(self.lows, time, order, price)
        _keep_lowest(self.highs, time, order, -price)
        _keep_last(self.recent, time, order, price)
        self._mark(time)
        self.fresh += 1

    def add_late(self, time: int, order: int, price: float) -> None:
        """Take a tick from before those."""
        _keep_lowest(self.lows, time, order, price)
        _keep_lowest(self.highs, time, order, -price)
        self.close((time, order, price))
        self._mark(time)
        self.fresh += 1

    def close(self, tick: Tick) -> None:
        """Note a tick that may be the last one of its hour."""
        closes, start = self.closes, hour_of(tick[0])
        at = closes.before(start)
        end = closes.before(start + HOUR_MS)
        if at == end or closes[at] < tick:
            closes.replace(at, end, tick)

    def leave(self, time: int) -> Series:
        """Take the ticks before a time, the start of a minute, out of the recent ones; their hours are closed."""
        left = self.recent.cut(self.recent.before(time))
        at = 0
        while at < len(left):
            at = left.before(hour_of(left.times[at]) + HOUR_MS)
            self.close(left[at - 1])
        return left

    def forget(self, horizon: int) -> None:
        """Forget what is before a time, the start of an hour; but for the last tick."""
        for series in (self.lows, self.highs):
            series.drop(series.before(horizon))
        self.closes.drop(self.closes.before(horizon) - 1)
        while self.hours and self.hours[0] < horizon:
            del self.hours[0], self.minutes[0]

    def extremes_after(self, time: int) -> Extremes | None:
        """Of the ticks after a time; None when there is none."""
        at = self.lows.until(time)
        return (self.lows.prices[at], -self.highs.prices[self.highs.until(time)]) if at < len(self.lows) else None

    def last_until(self, time: int) -> Tick | None:
        """The last tick at or before a time that is known here: in the hour of that time some may be missing."""
        for series in (self.recent, self.closes):
            if count := series.until(time):
                return series[count - 1]
        return None

    def first_after(self, tick: Tick) -> Tick | None:
        """The first tick after this one that is known here: before the recent ones some may be missing."""
        found = [first for series in (self.recent, self.closes) if (first := series.after(tick))]
        return min(found, default=None)

    @property
    def traded(self) -> dict[int, int]:
        """By hour, a bit for each minute with a tick."""
        return dict(zip(self.hours, self.minutes, strict=True))

    def minutes_of(self, hour: int) -> int:
        """A bit for each minute of an hour with a tick."""
        at = bisect_left(self.hours, hour)
        return self.minutes[at] if at < len(self.hours) and self.hours[at] == hour else 0

    def _mark(self, time: int) -> None:
        within = time % HOUR_MS
        start, bit, hours = time - within, 1 << within // MINUTE_MS, self.hours
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


def _extend_lowest(chain: Series, backwards: Iterable[Tick]) -> None:
    """Add ticks that are later than all, the last one first."""
    lowest, kept = inf, list[Tick]()
    for tick in backwards:
        if tick[2] < lowest:
            lowest = tick[2]
            kept.append(tick)
    prices = chain.prices
    stop = len(prices)
    while stop and prices[stop - 1] >= lowest:
        stop -= 1
    chain.truncate(stop)
    chain.extend(kept[::-1])


def _keep_lowest(chain: Series, time: int, order: int, price: float) -> None:
    """Add a tick, unless a later one is as low; those before it that are not lower go."""
    prices = chain.prices
    stop = len(prices)
    if stop and chain.times[-1] >= time:
        stop = chain.place((time, order, price))
        if stop < len(prices) and prices[stop] <= price:
            return
    start = stop
    while start and prices[start - 1] >= price:
        start -= 1
    chain.replace(start, stop, (time, order, price))


def _keep_last(series: Series, time: int, order: int, price: float) -> None:
    """Add a tick, unless it is not the last one of its moment."""
    at, tick = series.before(time), (time, order, price)
    end = series.until(time)
    if at == end or series[at] < tick:
        series.replace(at, end, tick)
