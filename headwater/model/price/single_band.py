"""Vectorised evaluation of many tokens, each with all of its prices in one band.

The statistics equal the results of stats.evaluate, which evaluates one token and takes about ten times as long.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.model.price.archive import ArchivedTicks, TimeBucket
from headwater.model.price.arrays import BoolArray, FloatArray, Int64Array, UInt64Array
from headwater.model.price.codec import EMPTY_STATE, NEVER, is_single_band
from headwater.model.price.series import Tick
from headwater.model.price.stats import DAY, HOUR, MAX_CHANGE, Stats
from headwater.model.price.tail import ENTRY_BYTES, ENTRY_DTYPE, has_no_addresses

EncodedTicks: TypeAlias = tuple[bytes | None, bytes | None, bytes | None]
"""The encoded ticks of a token: its state, its tail, and the archived ticks of the hour that contains the moment one
day ago. Each may be None.
"""
NO_ENCODED_TICKS: EncodedTicks = (None, None, None)

LOWS, HIGHS, RECENT, CLOSES = range(4)
"""The indexes of the series of a band."""
_LOW_HALF = (1 << 32) - 1
NO_TICK: Tick = (NEVER, 0, 1.0)


class Ticks(NamedTuple):
    """One tick per token, as columns. The time is NEVER for a token without a tick."""

    times: Int64Array
    orders: UInt64Array
    prices: FloatArray

    def later_of(self, other: "Ticks") -> "Ticks":
        """Return for each token the later one of its two ticks."""
        is_other_later = other.is_after(self)
        columns = zip(self, other, strict=True)
        return Ticks(*(np.where(is_other_later, other_column, own_column) for own_column, other_column in columns))

    def is_after(self, other: "Ticks") -> BoolArray:
        """Return for each token whether its tick is later than its tick in `other`."""
        by_price = (self.orders == other.orders) & (self.prices > other.prices)
        by_order = (self.times == other.times) & ((self.orders > other.orders) | by_price)
        is_after: BoolArray = (self.times > other.times) | by_order
        return is_after


class _States:
    """The encoded states of all tokens as words of eight bytes; codec.py has the layout."""

    def __init__(self, states: Sequence[bytes]) -> None:
        self.words = np.frombuffer(b"".join(states), np.int64)
        self.doubles, self.unsigned = self.words.view(np.float64), self.words.view(np.uint64)
        lengths = np.array([*map(len, states)]) // 8
        offsets = np.cumsum(lengths) - lengths
        self.recent_start = self.words[offsets + 2]
        self.newest = Ticks(self.words[offsets + 3], self.unsigned[offsets + 4], self.doubles[offsets + 5])
        self.decimals = self.words[offsets + 6] & 0xFF
        # The head of the band: its number, and from byte 4 on the lengths of its columns, of 32 bits each.
        word7, word8, word9 = (self.words[offsets + number] for number in (7, 8, 9))
        self.bands = word7.astype(np.int16)
        self.counts = np.stack([word7 >> 32, word8 & _LOW_HALF, word8 >> 32, word9 & _LOW_HALF])
        columns = 3 * self.counts
        self.starts = offsets + 10 + np.cumsum(columns, axis=0) - columns
        self.has_ticks = self.counts[RECENT] + self.counts[CLOSES] > 0

    def counts_up_to(self, *times: int) -> "list[Int64Array]":
        """Return for each time how many ticks of each series are at or before the time.

        One binary search finds the counts of all times, series and tokens together.
        """
        shape = (len(times), *self.counts.shape)
        low, high = np.zeros(shape, np.int64), np.broadcast_to(self.counts, shape).copy()
        limits = np.array(times).reshape(-1, 1, 1)
        last_word = len(self.words) - 1
        while (is_open := low < high).any():
            middle = (low + high) >> 1
            is_up_to = self.words[np.minimum(self.starts + middle, last_word)] <= limits
            low = np.where(is_open & is_up_to, middle + 1, low)
            high = np.where(is_open & ~is_up_to, middle, high)
        return [*low]

    def price(self, series: int, indexes: Int64Array, missing: float) -> FloatArray:
        """Return the price of each token at its index of a series.

        The price is `missing` where the index is past the end.
        """
        counts = self.counts[series]
        exists = indexes < counts
        words = np.where(exists, self.starts[series] + 2 * counts + indexes, 0)
        return np.where(exists, self.doubles[words], missing)

    def last(self, counts_up_to: Int64Array) -> Ticks:
        """Return the last of the first `counts_up_to` ticks of each token.

        This is a recent tick, or a close when none of these ticks is recent.
        """
        is_recent = counts_up_to[RECENT] > 0
        count, start, count_up_to = (
            np.where(is_recent, by_series[RECENT], by_series[CLOSES])
            for by_series in (self.counts, self.starts, counts_up_to)
        )
        exists = count_up_to > 0
        words = np.where(exists, start + count_up_to - 1, 0)
        count = np.where(exists, count, 0)
        times = np.where(exists, self.words[words], NEVER)
        return Ticks(times, self.unsigned[words + count], self.doubles[words + 2 * count])


class _Tails:
    """The tails of all tokens, concatenated. The ticks of each token are sorted."""

    def __init__(self, tails: Sequence[bytes]) -> None:
        self.counts = np.array([*map(len, tails)]) // ENTRY_BYTES
        entries: Any = np.frombuffer(b"".join(tails), ENTRY_DTYPE)
        rows = np.repeat(np.arange(len(tails)), self.counts)
        order = np.lexsort((entries["time"], rows))
        if not np.diff(entries["time"][order]).all():  # rare: two ticks have the same time
            order = np.lexsort((entries["decimals"], entries["price"], entries["order"], entries["time"], rows))
        entries = entries[order]
        self.times, self.orders, self.prices, self.decimals = (
            np.ascontiguousarray(entries[name]) for name in ("time", "order", "price", "decimals")
        )
        self.has_ticks = self.counts > 0
        self._starts = np.cumsum(self.counts) - self.counts
        self._starts_of_ticks = self._starts[self.has_ticks]

    def combine(self, ufunc: np.ufunc, column: NDArray[Any], missing: Any) -> NDArray[Any]:
        """Combine a column of the ticks to one value for each token.

        A token without ticks has the value `missing`.
        """
        values = np.full(len(self.counts), missing, np.asarray(column).dtype)
        if len(self._starts_of_ticks):
            values[self.has_ticks] = ufunc.reduceat(column, self._starts_of_ticks)
        return values

    def last_decimals(self) -> Int64Array:
        """Return the decimals of the last tick of each token."""
        decimals = np.zeros(len(self.counts), np.int64)
        decimals[self.has_ticks] = self.decimals[self._starts_of_ticks + self.counts[self.has_ticks] - 1]
        return decimals

    def last(self, time: int) -> Ticks:
        """Return the last tick of each token at or before a time."""
        counts_up_to = self.combine(np.add, (self.times <= time).astype(np.int64), 0)
        if not len(self.times):
            zeros = np.zeros(len(self.counts))
            return Ticks(zeros.astype(np.int64) + NEVER, zeros.astype(np.uint64), zeros)
        exists = counts_up_to > 0
        rows = np.where(exists, self._starts + counts_up_to - 1, 0)
        return Ticks(np.where(exists, self.times[rows], NEVER), self.orders[rows], self.prices[rows])


class _TokenColumns:
    """The states, the tails and the archived ticks of all tokens.

    They have either the USD ticks of the tokens, or their quoted ticks.

    Args:
        encoded: The encoded ticks of each token.
        hour: The start of the hour of the archived ticks, which contains `day_ago`.
        day_ago: The moment one day ago.
    """

    def __init__(self, encoded: Sequence[EncodedTicks], hour: int, day_ago: int) -> None:
        self.states = _States([state or EMPTY_STATE for state, _, _ in encoded])
        self.tails = _Tails([tail or b"" for _, tail, _ in encoded])
        self._archived = self._last_archived([ticks for _, _, ticks in encoded], hour, day_ago)
        self._day_ago = day_ago
        self.has_ticks = self.states.has_ticks | self.tails.has_ticks

    def latest(self, now: int) -> Ticks:
        """Return the last tick of each token."""
        return self.states.last(self.states.counts).later_of(self.tails.last(now))

    def base(self, start: int, counts_up_to_start: "Int64Array") -> Ticks:
        """Return the last tick of each token at or before `start`.

        `counts_up_to_start` is the result of `states.counts_up_to` for `start`.
        """
        base = self.states.last(counts_up_to_start).later_of(self.tails.last(start))
        return base.later_of(self._archived) if start == self._day_ago else base

    def extremes(self, start: int, counts_up_to_start: "Int64Array") -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest price of each token after `start`.

        They are infinite for a token without a tick after `start`. `counts_up_to_start` is the result of
        `states.counts_up_to` for `start`.
        """
        states, tails = self.states, self.tails
        is_after_start = tails.times > start
        low = tails.combine(np.minimum, np.where(is_after_start, tails.prices, np.inf), np.inf)
        high = tails.combine(np.maximum, np.where(is_after_start, tails.prices, -np.inf), -np.inf)
        return (
            np.minimum(low, states.price(LOWS, counts_up_to_start[LOWS], np.inf)),
            np.maximum(high, -states.price(HIGHS, counts_up_to_start[HIGHS], np.inf)),
        )

    def bands(self) -> tuple[Int64Array, BoolArray]:
        """Return the band of each token, and whether all of its prices are in this band."""
        states, tails = self.states, self.tails
        tail_bands = np.frexp(tails.prices)[1].astype(np.int64)
        lowest, highest = tails.combine(np.minimum, tail_bands, 0), tails.combine(np.maximum, tail_bands, 0)
        is_band_of_state = (lowest == states.bands) | ~tails.has_ticks | ~states.has_ticks
        is_single: BoolArray = (lowest == highest) & is_band_of_state
        return np.where(states.has_ticks, states.bands, lowest), is_single

    def is_complete(self, now: int, start: int) -> BoolArray:
        """Return for each token whether its state and its tail have every tick after `start`.

        They do when no tick after `start` is archived. A token with a tick in the future is not complete.
        """
        newest = np.maximum(self.states.newest.times, self.tails.combine(np.maximum, self.tails.times, NEVER))
        is_complete: BoolArray = (newest <= now) & (self.states.recent_start <= start)
        return is_complete

    def newest(self, now: int) -> list[tuple[Ticks, Int64Array]]:
        """Return the candidates for the newest tick of each token, with their decimals."""
        return [(self.states.newest, self.states.decimals), (self.tails.last(now), self.tails.last_decimals())]

    def _last_archived(self, archived: Sequence[bytes | None], hour: int, day_ago: int) -> Ticks:
        """Return the last archived tick of each token at or before the moment one day ago."""
        last_ticks: list[Tick] = [NO_TICK] * len(archived)
        bands = self.states.bands.tolist()
        for row in np.flatnonzero(self.states.recent_start > day_ago).tolist():
            if ticks := archived[row]:
                last_ticks[row] = ArchivedTicks(TimeBucket(hour), ticks).last_up_to(day_ago, (bands[row],)) or NO_TICK
        times, orders, prices = zip(*last_ticks, strict=True)
        return Ticks(np.array(times), np.array(orders, np.uint64), np.array(prices))


class _Evaluation:
    """One evaluation of many tokens.

    Args:
        columns: The encoded USD ticks of the tokens and, if any token has quoted ticks, their encoded quoted ticks.
        hour: The start of the hour that contains the moment one day ago.
        now: The time, in ms since the epoch.
    """

    def __init__(self, columns: Sequence[Sequence[EncodedTicks]], hour: int, now: int) -> None:
        self._day_ago, self._hour_ago, self._now = now - DAY, now - HOUR, now
        self._columns = [_TokenColumns(encoded, hour, self._day_ago) for encoded in columns]

    def stats(self) -> list[Stats | None]:
        """Return the statistics of each token; None for a token that must be evaluated separately."""
        latest = self._last(columns.latest(self._now) for columns in self._columns)
        counts = [columns.states.counts_up_to(self._day_ago, self._hour_ago) for columns in self._columns]
        up_to_day_ago, up_to_hour_ago = zip(*counts, strict=True)
        stats_columns = (  # in the order of the fields of Stats after `address`; the last column is not a field
            latest.times,
            latest.prices,
            *self._extremes(self._day_ago, up_to_day_ago, latest.prices),
            *self._extremes(self._hour_ago, up_to_hour_ago, latest.prices),
            _changes(latest, self._base(self._day_ago, up_to_day_ago)),
            _changes(latest, self._base(self._hour_ago, up_to_hour_ago)),
            self._decimals(),
            latest.orders,
            self._is_valid(),
        )
        rows = zip(*(column.tolist() for column in stats_columns), strict=True)
        return [Stats("", *row) if is_valid else None for *row, is_valid in rows]

    def _is_valid(self) -> BoolArray:
        """Return for each token whether this evaluation is valid.

        It is valid when all prices are in one band, no tick is in the future, and no archived ticks are needed except
        the ticks of the hour one day ago.
        """
        is_valid = np.ones(len(self._columns[0].has_ticks), np.bool_)
        bands, is_band_known = np.zeros(len(is_valid), np.int64), np.zeros(len(is_valid), np.bool_)
        for columns in self._columns:
            own_bands, is_single = columns.bands()
            is_valid &= ~columns.has_ticks | is_single & columns.is_complete(self._now, self._hour_ago)
            is_valid &= ~(columns.has_ticks & is_band_known) | (own_bands == bands)
            bands, is_band_known = np.where(columns.has_ticks, own_bands, bands), is_band_known | columns.has_ticks
        return is_valid

    @staticmethod
    def _last(ticks: Iterable[Ticks]) -> Ticks:
        return reduce(Ticks.later_of, ticks)

    def _base(self, start: int, counts_up_to_start: "Sequence[Int64Array]") -> Ticks:
        pairs = zip(self._columns, counts_up_to_start, strict=True)
        return self._last(columns.base(start, counts) for columns, counts in pairs)

    def _extremes(
        self, start: int, counts_up_to_start: "Sequence[Int64Array]", latest: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest price of each token after `start`.

        Both are the latest price for a token without a tick after `start`.
        """
        pairs = zip(self._columns, counts_up_to_start, strict=True)
        lows, highs = zip(*(columns.extremes(start, counts) for columns, counts in pairs), strict=True)
        low, high = reduce(np.minimum, lows), reduce(np.maximum, highs)
        has_no_tick = low > high
        return np.where(has_no_tick, latest, low), np.where(has_no_tick, latest, high)

    def _decimals(self) -> Int64Array:
        """Return the decimals of the newest tick of each token.

        Of two equal ticks, the larger number counts.
        """
        [(newest, decimals), *candidates] = [pair for columns in self._columns for pair in columns.newest(self._now)]
        for ticks, other_decimals in candidates:
            larger = np.maximum(decimals, other_decimals)
            decimals = np.where(
                ticks.is_after(newest), other_decimals, np.where(newest.is_after(ticks), decimals, larger)
            )
            newest = newest.later_of(ticks)
        return decimals


def _changes(latest: Ticks, base: Ticks) -> NDArray[np.object_]:
    """Return the changes in percent; None without a price at the start of the period."""
    with np.errstate(all="ignore"):
        changes = np.minimum((latest.prices - base.prices) / base.prices * 100, MAX_CHANGE).astype(object)
    changes[base.times == NEVER] = None
    return changes


def evaluate_single_band(
    usd: Sequence[EncodedTicks], hour: int, now: int, quoted: Sequence[EncodedTicks] = ()
) -> list[Stats | None]:
    """Return the statistics of each token; None for a token that must be evaluated separately.

    A token without ticks has None too. A token must be evaluated separately when its prices are in several bands, when
    it has ticks in the future, when its address is not in lower case, or when other archived ticks are needed.

    Args:
        usd: The encoded USD ticks of the tokens.
        hour: The start of the hour of the archived ticks. It contains the moment one day before `now`.
        now: The time, in ms since the epoch.
        quoted: The encoded quoted ticks of the same tokens, priced in USD; may be empty when no token has any.
    """
    columns = [usd, quoted] if quoted else [usd]
    rows = [row for row, encoded in enumerate(zip(*columns, strict=True)) if _may_be_single_band(encoded)]
    stats: list[Stats | None] = [None] * len(usd)
    if rows:
        selected = [[column[row] for row in rows] for column in columns]
        for row, token_stats in zip(rows, _Evaluation(selected, hour, now).stats(), strict=True):
            stats[row] = token_stats
    return stats


def _may_be_single_band(encoded: Sequence[EncodedTicks]) -> bool:
    if not any(state or tail for state, tail, _ in encoded):
        return False
    return all(
        (not state or is_single_band(state)) and (not tail or has_no_addresses(tail)) for state, tail, _ in encoded
    )
