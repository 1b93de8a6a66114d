"""A sorted list of ticks as three columns.

A tick takes 24 bytes, in memory and in the stored state.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Tick = tuple[int, int, float]
"""(time in ms since the epoch, order, price). A tick is later than another tick when its tuple is greater."""


class Series:
    """Ticks in ascending order."""

    __slots__ = ("orders", "prices", "times")

    def __init__(self, times: bytes = b"", orders: bytes = b"", prices: bytes = b"") -> None:
        self.times = array("q", times)
        self.orders = array("Q", orders)
        self.prices = array("d", prices)

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, at: int) -> Tick:
        return self.times[at], self.orders[at], self.prices[at]

    def replace_range(self, start: int, stop: int, tick: Tick) -> None:
        """Replace the ticks in [start, stop) by one tick. With start == stop, the tick is inserted."""
        times, orders, prices = self.times, self.orders, self.prices
        if start == stop:
            times.insert(start, tick[0])
            orders.insert(start, tick[1])
            prices.insert(start, tick[2])
            return
        times[start], orders[start], prices[start] = tick
        if stop - start > 1:
            del times[start + 1 : stop], orders[start + 1 : stop], prices[start + 1 : stop]

    def truncate(self, count: int) -> None:
        """Keep only the first `count` ticks."""
        if count < len(self.times):
            del self.times[count:], self.orders[count:], self.prices[count:]

    def extend(self, ticks: Sequence[Tick]) -> None:
        """Append sorted ticks that are later than all ticks of the series."""
        times, orders, prices = zip(*ticks, strict=True)
        self.times.extend(times)
        self.orders.extend(orders)
        self.prices.extend(prices)

    def pop_first(self, count: int) -> "Series":
        """Remove and return the first `count` ticks."""
        first = Series()
        first.times, first.orders, first.prices = self.times[:count], self.orders[:count], self.prices[:count]
        self.drop(count)
        return first

    def ticks(self, start: int, stop: int) -> Iterable[Tick]:
        """Return the ticks in [start, stop)."""
        return zip(self.times[start:stop], self.orders[start:stop], self.prices[start:stop], strict=True)

    def drop(self, count: int) -> None:
        """Remove the first `count` ticks."""
        if count > 0:
            del self.times[:count], self.orders[:count], self.prices[:count]

    def index_of(self, tick: Tick) -> int:
        """Return the index of the first tick that is not before `tick`."""
        at = bisect_left(self.times, tick[0])
        while at < len(self.times) and self[at] < tick:
            at += 1
        return at

    def first_after(self, tick: Tick) -> Tick | None:
        """Return the first tick after `tick`."""
        at = self.index_of(tick)
        while at < len(self.times) and self[at] == tick:
            at += 1
        return self[at] if at < len(self.times) else None

    def count_up_to(self, time: int) -> int:
        """Return the number of ticks at or before a time."""
        return bisect_right(self.times, time)

    def count_before(self, time: int) -> int:
        """Return the number of ticks before a time."""
        return bisect_left(self.times, time)
