"""Many tokens at once: the statistics of those whose prices all lie in one band, by columns.

The figures are those of stats.evaluate, which does a token at a time; with this one 200 tokens take what 20 took.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.model.price.codec import EMPTY, NEVER, is_plain
from headwater.model.price.left import Chunk, Left
from headwater.model.price.series import Tick
from headwater.model.price.stats import DAY, GREATEST, HOUR, Stats
from headwater.model.price.tail import ENTRY, is_unnamed

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Stored: TypeAlias = tuple[bytes | None, bytes | None, bytes | None]
"""State, tail, and the ticks of the hour that contains the moment a day ago."""

_LOW_HALF = (1 << 32) - 1
_NOTHING: Tick = (NEVER, 0, 1.0)
_ENTRIES = np.dtype([("length", "u1"), ("time", "<i8"), ("order", "<u8"), ("price", "<f8"), ("decimals", "u1")])


class Ticks(NamedTuple):
    """A tick of each token, as columns. times: NEVER where there is none."""

    times: Ints
    orders: NDArray[np.uint64]
    prices: Floats

    def or_later(self, other: "Ticks") -> "Ticks":
        """The later one of two."""
        is_other = other.is_after(self)
        return Ticks(*(np.where(is_other, theirs, ours) for ours, theirs in zip(self, other, strict=True)))

    def is_after(self, other: "Ticks") -> Flags:
        """Whether these are later: by time, order and price."""
        by_price = (self.orders == other.orders) & (self.prices > other.prices)
        by_order = (self.times == other.times) & ((self.orders > other.orders) | by_price)
        is_after: Flags = (self.times > other.times) | by_order
        return is_after


class _States:
    """The states of tokens: words of eight bytes, one behind the other; `at` says where each begins (codec.py)."""

    def __init__(self, states: Sequence[bytes]) -> None:
        self.words = np.frombuffer(b"".join(states), np.int64)
        self.doubles, self.unsigned = self.words.view(np.float64), self.words.view(np.uint64)
        lengths = np.array([*map(len, states)]) // 8
        at = np.cumsum(lengths) - lengths
        self.kept = self.words[at + 2]
        self.newest = Ticks(self.words[at + 3], self.unsigned[at + 4], self.doubles[at + 5])
        self.decimals = self.words[at + 6] & 0xFF
        first, second, third = (self.words[at + 7 + number] for number in range(3))
        self.bands = first.astype(np.int16)
        self.counts = np.stack([first >> 32, second & _LOW_HALF, second >> 32, third & _LOW_HALF])
        columns = 3 * self.counts
        self.starts = at + 10 + np.cumsum(columns, axis=0) - columns
        self.known = self.counts[2] + self.counts[3] > 0

    def until(self, *times: int) -> "list[Ints]":
        """For each time, of each series (lows, highs, recent, closes) the number of ticks at or before it."""
        shape = (len(times), *self.counts.shape)
        low, high = np.zeros(shape, np.int64), np.broadcast_to(self.counts, shape).copy()
        wanted = np.array(times).reshape(-1, 1, 1)
        last = len(self.words) - 1
        while (is_open := low < high).any():
            middle = (low + high) >> 1
            is_before = self.words[np.minimum(self.starts + middle, last)] <= wanted
            low = np.where(is_open & is_before, middle + 1, low)
            high = np.where(is_open & ~is_before, middle, high)
        return [*low]

    def price(self, series: int, numbers: Ints, missing: float) -> Floats:
        """Prices by their numbers in one of the series."""
        counts = self.counts[series]
        is_there = numbers < counts
        at = np.where(is_there, self.starts[series] + 2 * counts + numbers, 0)
        return np.where(is_there, self.doubles[at], missing)

    def last(self, until: Ints) -> Ticks:
        """The last of so many ticks: of the recent ones, or else of the closes."""
        is_recent = until[2] > 0
        count, start, number = (np.where(is_recent, some[2], some[3]) for some in (self.counts, self.starts, until))
        is_there = number > 0
        at = np.where(is_there, start + number - 1, 0)
        count = np.where(is_there, count, 0)
        times = np.where(is_there, self.words[at], NEVER)
        return Ticks(times, self.unsigned[at + count], self.doubles[at + 2 * count])


class _Tails:
    """The tails of tokens: all their ticks, each token's behind each other and in order."""

    def __init__(self, tails: Sequence[bytes]) -> None:
        self.counts = np.array([*map(len, tails)]) // ENTRY
        entries: Any = np.frombuffer(b"".join(tails), _ENTRIES)
        rows = np.repeat(np.arange(len(tails)), self.counts)
        order = np.lexsort((entries["time"], rows))
        if not np.diff(entries["time"][order]).all():  # as seldom: ticks of one moment, or of two tokens
            order = np.lexsort((entries["decimals"], entries["price"], entries["order"], entries["time"], rows))
        entries = entries[order]
        self.times, self.orders, self.prices, self.decimals = (
            np.ascontiguousarray(entries[name]) for name in ("time", "order", "price", "decimals")
        )
        self.is_there = self.counts > 0
        self._starts = np.cumsum(self.counts) - self.counts
        self._some = self._starts[self.is_there]

    def reduced(self, reduce: np.ufunc, column: NDArray[Any], missing: Any) -> NDArray[Any]:
        """One figure of the ticks of each token."""
        found = np.full(len(self.counts), missing, np.asarray(column).dtype)
        if len(self._some):
            found[self.is_there] = reduce.reduceat(column, self._some)
        return found

    def last_decimals(self) -> Ints:
        """What the last tick of each token tells."""
        found = np.zeros(len(self.counts), np.int64)
        found[self.is_there] = self.decimals[self._some + self.counts[self.is_there] - 1]
        return found

    def last(self, time: int) -> Ticks:
        """The last ticks at or before a time."""
        numbers = self.reduced(np.add, (self.times <= time).astype(np.int64), 0)
        if not len(self.times):
            nothing = np.zeros(len(self.counts))
            return Ticks(nothing.astype(np.int64) + NEVER, nothing.astype(np.uint64), nothing)
        at = np.where(numbers > 0, self._starts + numbers - 1, 0)
        return Ticks(np.where(numbers > 0, self.times[at], NEVER), self.orders[at], self.prices[at])


class _Plain:
    """The tokens of one evaluation. hour: of the moment a day ago."""

    def __init__(self, found: Sequence[Stored], hour: int, now: int) -> None:
        self._day, self._hour, self._now = now - DAY, now - HOUR, now
        self._states = _States([state or EMPTY for state, _, _ in found])
        self._tails = _Tails([tail or b"" for _, tail, _ in found])
        self._left = self._last_left([ticks for _, _, ticks in found], hour)

    def stats(self) -> list[Stats | None]:
        """None where a token is not plain after all."""
        of_day, of_hour = self._states.until(self._day, self._hour)
        latest = self._states.last(self._states.counts).or_later(self._tails.last(self._now))
        day_base = self._states.last(of_day).or_later(self._tails.last(self._day)).or_later(self._left)
        hour_base = self._states.last(of_hour).or_later(self._tails.last(self._hour))
        columns = (
            latest.times,
            latest.prices,
            *self._extremes(self._day, of_day, latest.prices),
            *self._extremes(self._hour, of_hour, latest.prices),
            _changes(latest, day_base),
            _changes(latest, hour_base),
            self._decimals(),
            latest.orders,
            self._is_plain(),
        )
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Stats("", *row) if is_plain else None for *row, is_plain in rows]

    def _is_plain(self) -> Flags:
        """Whether all prices lie in one band, no tick is ahead, and nothing but the hour of a day ago is missing."""
        states, tails = self._states, self._tails
        bands = np.frexp(tails.prices)[1].astype(np.int64)
        lowest, highest = tails.reduced(np.minimum, bands, 0), tails.reduced(np.maximum, bands, 0)
        is_one = (lowest == highest) & ((lowest == states.bands) | ~tails.is_there | ~states.known)
        newest = np.maximum(states.newest.times, tails.reduced(np.maximum, tails.times, NEVER))
        is_plain: Flags = is_one & (newest <= self._now) & (states.kept <= self._hour)
        return is_plain

    def _extremes(self, after: int, until: Ints, latest: Floats) -> tuple[Floats, Floats]:
        states, tails = self._states, self._tails
        is_within = tails.times > after
        low = tails.reduced(np.minimum, np.where(is_within, tails.prices, np.inf), np.inf)
        high = tails.reduced(np.maximum, np.where(is_within, tails.prices, -np.inf), -np.inf)
        low = np.minimum(low, states.price(0, until[0], np.inf))
        high = np.maximum(high, -states.price(1, until[1], np.inf))
        is_none = low > high
        return np.where(is_none, latest, low), np.where(is_none, latest, high)

    def _last_left(self, chunks: Sequence[bytes | None], hour: int) -> Ticks:
        """The last ticks until a day ago that have left their states."""
        found: list[Tick] = [_NOTHING] * len(chunks)
        bands = self._states.bands.tolist()
        for row in np.flatnonzero(self._states.kept > self._day).tolist():
            if ticks := chunks[row]:
                found[row] = Left(Chunk(hour), ticks).last_until(self._day, (bands[row],)) or _NOTHING
        times, orders, prices = zip(*found, strict=True)
        return Ticks(np.array(times), np.array(orders, np.uint64), np.array(prices))

    def _decimals(self) -> Ints:
        """As the newest tick tells them."""
        ours, theirs = self._states.decimals, self._tails.last_decimals()
        newest, last = self._states.newest, self._tails.last(self._now)
        return np.where(last.is_after(newest), theirs, np.where(newest.is_after(last), ours, np.maximum(ours, theirs)))


def _changes(latest: Ticks, base: Ticks) -> NDArray[np.object_]:
    """In percent; None where there was no price before."""
    with np.errstate(all="ignore"):
        changes = np.minimum((latest.prices - base.prices) / base.prices * 100, GREATEST).astype(object)
    changes[base.times == NEVER] = None
    return changes


def evaluate_plain(found: Sequence[Stored], hour: int, now: int) -> list[Stats | None]:
    """The statistics at a moment; None for a token that is to be evaluated by itself, or has nothing.

    hour: the start of that which `found` has the ticks of. It contains the moment a day before `now`.
    """
    rows = [row for row, (state, tail, _) in enumerate(found) if _may_be_plain(state, tail)]
    stats: list[Stats | None] = [None] * len(found)
    if rows:
        for row, one in zip(rows, _Plain([found[row] for row in rows], hour, now).stats(), strict=True):
            stats[row] = one
    return stats


def _may_be_plain(state: bytes | None, tail: bytes | None) -> bool:
    return bool(state or tail) and (not state or is_plain(state)) and (not tail or is_unnamed(tail))
