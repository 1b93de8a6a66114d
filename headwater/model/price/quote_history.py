"""The price history of a quote token: the price of one unit in USD at each time.

The history consists of the token's ticks in USD. A token that is only quoted in other tokens has no history, so it
can't be a quote token.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from headwater.model.price.archive import ArchivedTicks, TimeBucket
from headwater.model.price.arrays import BoolArray, FloatArray, Int64Array, UInt64Array
from headwater.model.price.band import HOUR_MS, MINUTE_MS
from headwater.model.price.state import TokenState
from headwater.model.price.stats import STALE_MS, base_buckets

QUOTE_STALE_MS = HOUR_MS
"""A quote price counts as stale when it is older than this at the time of the tick."""


class QuotePrices(NamedTuple):
    """The prices of a quote token at several times.

    A price is valid only where `is_known` is true.
    """

    usd: FloatArray
    is_known: BoolArray
    is_stale: BoolArray


class QuoteHistory(NamedTuple):
    """The sorted USD ticks of a quote token: times in ms since the epoch, and prices."""

    times: Int64Array
    prices: FloatArray

    def at(self, times: Int64Array) -> QuotePrices:
        """Return the last price at or before each of the times.

        A price is unknown before the first tick, and when the last tick before the time is older than STALE_MS.
        """
        if not len(self.times):
            false = np.zeros(len(times), np.bool_)
            return QuotePrices(np.zeros(len(times)), is_known=false, is_stale=false)
        indexes = np.searchsorted(self.times, times, side="right") - 1
        ages = times - self.times[indexes]
        return QuotePrices(self.prices[indexes], (indexes >= 0) & (ages < STALE_MS), ages > QUOTE_STALE_MS)


NO_HISTORY = QuoteHistory(np.array([], np.int64), np.array([]))


def history_buckets(state: TokenState, times: Int64Array) -> list[TimeBucket]:
    """Return the archived buckets that prices at these times need in addition to the state."""
    minutes = np.unique(times[times < state.recent_start] // MINUTE_MS).tolist()
    buckets = (bucket for minute in minutes for bucket in base_buckets(state, minute * MINUTE_MS, state.bands.keys()))
    return [*dict.fromkeys(buckets)]


def history_of(state: TokenState, archived: Iterable[ArchivedTicks]) -> QuoteHistory:
    """Return the history that a state and archived ticks have together."""
    columns = [*_columns(state, archived)]
    if not columns:
        return NO_HISTORY
    times, orders, prices = (np.concatenate(column) for column in zip(*columns, strict=True))
    sorted_rows = np.lexsort((prices, orders, times))
    return QuoteHistory(times[sorted_rows], prices[sorted_rows])


def _columns(
    state: TokenState, archived: Iterable[ArchivedTicks]
) -> Iterator[tuple[Int64Array, UInt64Array, FloatArray]]:
    for band in state.bands.values():
        for series in (band.recent, band.closes):
            yield np.array(series.times, np.int64), np.array(series.orders, np.uint64), np.array(series.prices)
    ticks = [tick for bucket_ticks in state.to_archive.values() for tick in bucket_ticks]
    ticks += [tick for archived_ticks in archived for tick in archived_ticks.ticks()]
    if ticks:
        times, orders, prices = zip(*ticks, strict=True)
        yield np.array(times, np.int64), np.array(orders, np.uint64), np.array(prices)
