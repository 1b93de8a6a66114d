"""Many tokens at once: the statistics of those whose prices all lie in one band, by columns.

The figures are those of stats.evaluate, which does a token at a time; with this one 200 tokens take what 20 took.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.model.price.codec import EMPTY, NEVER, is_plain
from headwater.model.price.left import Chunk, Left
from headwater.model.price.series import Tick
from headwater.model.price.stats import DAY, GREATEST, HOUR, Stats
from headwater.model.price.tail import ENTRY, UNNAMED_ENTRY, is_unnamed

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Stored: TypeAlias = tuple[bytes | None, bytes | None, bytes | None]
"""State, tail, and the ticks of the hour that contains the moment a day ago."""
NOTHING: Stored = (None, None, None)

_LOW_HALF = (1 << 32) - 1
_NOTHING: Tick = (NEVER, 0, 1.0)


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
        entries: Any = np.frombuffer(b"".join(tails), UNNAMED_ENTRY)
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


class _Part:
    """One state of each token, with its tail and its archived ticks of the hour of a day ago."""

    def __init__(self, found: Sequence[Stored], hour: int, day: int) -> None:
        self.states = _States([state or EMPTY for state, _, _ in found])
        self.tails = _Tails([tail or b"" for _, tail, _ in found])
        self._archived = self._last_archived([ticks for _, _, ticks in found], hour, day)
        self._day = day
        self.is_there = self.states.known | self.tails.is_there

    def latest(self, now: int) -> Ticks:
        """The last ticks."""
        return self.states.last(self.states.counts).or_later(self.tails.last(now))

    def base(self, start: int, until: "Ints") -> Ticks:
        """The last ticks at or before a time; until: the numbers of the states' ticks at or before it."""
        base = self.states.last(until).or_later(self.tails.last(start))
        return base.or_later(self._archived) if start == self._day else base

    def extremes(self, after: int, until: "Ints") -> tuple[Floats, Floats]:
        """The lowest and highest prices after a time; infinite where there is no tick."""
        states, tails = self.states, self.tails
        is_within = tails.times > after
        low = tails.reduced(np.minimum, np.where(is_within, tails.prices, np.inf), np.inf)
        high = tails.reduced(np.maximum, np.where(is_within, tails.prices, -np.inf), -np.inf)
        return (
            np.minimum(low, states.price(0, until[0], np.inf)),
            np.maximum(high, -states.price(1, until[1], np.inf)),
        )

    def bands(self) -> tuple[Ints, Flags]:
        """The band of each token, and whether all of its prices lie in one."""
        states, tails = self.states, self.tails
        bands = np.frexp(tails.prices)[1].astype(np.int64)
        lowest, highest = tails.reduced(np.minimum, bands, 0), tails.reduced(np.maximum, bands, 0)
        is_one: Flags = (lowest == highest) & ((lowest == states.bands) | ~tails.is_there | ~states.known)
        return np.where(states.known, states.bands, lowest), is_one

    def is_complete(self, now: int, start: int) -> Flags:
        """Whether no tick is ahead, and nothing after `start` is archived."""
        newest = np.maximum(self.states.newest.times, self.tails.reduced(np.maximum, self.tails.times, NEVER))
        is_complete: Flags = (newest <= now) & (self.states.kept <= start)
        return is_complete

    def newest(self, now: int) -> list[tuple[Ticks, Ints]]:
        """Ticks of which one is the newest of each token, and the decimals that they tell."""
        return [(self.states.newest, self.states.decimals), (self.tails.last(now), self.tails.last_decimals())]

    def _last_archived(self, archived: Sequence[bytes | None], hour: int, day: int) -> Ticks:
        """The last ticks until a day ago that have left their states."""
        found: list[Tick] = [_NOTHING] * len(archived)
        bands = self.states.bands.tolist()
        for row in np.flatnonzero(self.states.kept > day).tolist():
            if ticks := archived[row]:
                found[row] = Left(Chunk(hour), ticks).last_until(day, (bands[row],)) or _NOTHING
        times, orders, prices = zip(*found, strict=True)
        return Ticks(np.array(times), np.array(orders, np.uint64), np.array(prices))


class _Plain:
    """The tokens of one evaluation. hour: of the moment a day ago."""

    def __init__(self, columns: Sequence[Sequence[Stored]], hour: int, now: int) -> None:
        self._day, self._hour, self._now = now - DAY, now - HOUR, now
        self._parts = [_Part(found, hour, self._day) for found in columns]

    def stats(self) -> list[Stats | None]:
        """None where a token is not plain after all."""
        until = [part.states.until(self._day, self._hour) for part in self._parts]
        latest = self._last(part.latest(self._now) for part in self._parts)
        bases = [
            self._last(part.base(start, some[at]) for part, some in zip(self._parts, until, strict=True))
            for at, start in enumerate((self._day, self._hour))
        ]
        columns = (
            latest.times,
            latest.prices,
            *self._extremes(self._day, [of_day for of_day, _ in until], latest.prices),
            *self._extremes(self._hour, [of_hour for _, of_hour in until], latest.prices),
            *(_changes(latest, base) for base in bases),
            self._decimals(),
            latest.orders,
            self._is_plain(),
        )
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Stats("", *row) if is_plain else None for *row, is_plain in rows]

    def _is_plain(self) -> Flags:
        """Whether all prices lie in one band, no tick is ahead, and nothing but the hour of a day ago is missing."""
        is_plain = np.ones(len(self._parts[0].is_there), np.bool_)
        bands, is_known = np.zeros(len(is_plain), np.int64), np.zeros(len(is_plain), np.bool_)
        for part in self._parts:
            own, is_one = part.bands()
            is_plain &= ~part.is_there | is_one & part.is_complete(self._now, self._hour)
            is_plain &= ~(part.is_there & is_known) | (own == bands)
            bands, is_known = np.where(part.is_there, own, bands), is_known | part.is_there
        return is_plain

    @staticmethod
    def _last(ticks: Iterable[Ticks]) -> Ticks:
        return reduce(Ticks.or_later, ticks)

    def _extremes(self, after: int, until: "Sequence[Ints]", latest: Floats) -> tuple[Floats, Floats]:
        found = [part.extremes(after, some) for part, some in zip(self._parts, until, strict=True)]
        low, high = reduce(np.minimum, [low for low, _ in found]), reduce(np.maximum, [high for _, high in found])
        is_none = low > high
        return np.where(is_none, latest, low), np.where(is_none, latest, high)

    def _decimals(self) -> Ints:
        """As the newest tick tells them; of two equal ones the greater number."""
        [(newest, decimals), *others] = [pair for part in self._parts for pair in part.newest(self._now)]
        for at, (ticks, theirs) in enumerate(others, 1):
            is_theirs, is_ours = ticks.is_after(newest), newest.is_after(ticks)
            either = np.where(is_ours, decimals, np.maximum(decimals, theirs))
            decimals = np.where(is_theirs, theirs, either)
            if at < len(others):
                newest = newest.or_later(ticks)
        return decimals


def _changes(latest: Ticks, base: Ticks) -> NDArray[np.object_]:
    """In percent; None where there was no price before."""
    with np.errstate(all="ignore"):
        changes = np.minimum((latest.prices - base.prices) / base.prices * 100, GREATEST).astype(object)
    changes[base.times == NEVER] = None
    return changes


def evaluate_plain(found: Sequence[Stored], hour: int, now: int, quoted: Sequence[Stored] = ()) -> list[Stats | None]:
    """The statistics at a moment; None for a token that is to be evaluated by itself, or has nothing.

    hour: The start of that which `found` has the ticks of. It contains the moment a day before `now`.
    quoted: What there is of the quoted ticks of the same tokens, priced; may be left out when no token has any.
    """
    columns = [found, quoted] if quoted else [found]
    rows = [row for row, parts in enumerate(zip(*columns, strict=True)) if _may_be_plain(parts)]
    stats: list[Stats | None] = [None] * len(found)
    if rows:
        chosen = [[column[row] for row in rows] for column in columns]
        for row, one in zip(rows, _Plain(chosen, hour, now).stats(), strict=True):
            stats[row] = one
    return stats


def _may_be_plain(parts: Sequence[Stored]) -> bool:
    if not any(state or tail for state, tail, _ in parts):
        return False
    return all((not state or is_plain(state)) and (not tail or is_unnamed(tail)) for state, tail, _ in parts)
