"""The price history of a quote token: what one unit of it was worth in USD at each moment.

The history consists of the token's own ticks in USD, so a token that is quoted itself prices no other token.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.model.price.band import HOUR_MS, MINUTE_MS
from headwater.model.price.left import Chunk, Left
from headwater.model.price.state import TokenState
from headwater.model.price.stats import STALE_MS, base_chunks

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]

QUOTE_STALE_MS = HOUR_MS
"""A quote price that is older than this at the time of the tick counts as stale."""


class QuotePrices(NamedTuple):
    """The prices of a quote token at some moments. A price counts where `is_known`."""

    usd: Floats
    is_known: Flags
    is_stale: Flags


class QuoteHistory(NamedTuple):
    """The USD ticks of a quote token in their order: times in ms since the epoch, and prices."""

    times: Ints
    prices: Floats

    def at(self, times: Ints) -> QuotePrices:
        """The last price at or before each of the times. It is unknown before the first tick, and after 7 days."""
        if not len(self.times):
            nothing = np.zeros(len(times), np.bool_)
            return QuotePrices(np.zeros(len(times)), nothing, nothing)
        places = np.searchsorted(self.times, times, side="right") - 1
        ages = times - self.times[places]
        return QuotePrices(self.prices[places], (places >= 0) & (ages < STALE_MS), ages > QUOTE_STALE_MS)


NO_HISTORY = QuoteHistory(np.array([], np.int64), np.array([]))


def history_chunks(state: TokenState, times: Ints) -> list[Chunk]:
    """The archived chunks that a history needs beside the state, for prices at these times."""
    minutes = np.unique(times[times < state.kept] // MINUTE_MS).tolist()
    found = (chunk for minute in minutes for chunk in base_chunks(state, minute * MINUTE_MS, state.bands.keys()))
    return [*dict.fromkeys(found)]


def history_of(state: TokenState, archived: Iterable[Left]) -> QuoteHistory:
    """The history in a state and the archived ticks beside it."""
    columns = [*_columns(state, archived)]
    if not columns:
        return NO_HISTORY
    times, orders, prices = (np.concatenate(column) for column in zip(*columns, strict=True))
    places = np.lexsort((prices, orders, times))
    return QuoteHistory(times[places], prices[places])


def _columns(state: TokenState, archived: Iterable[Left]) -> Iterator[tuple[Ints, NDArray[np.uint64], Floats]]:
    for band in state.bands.values():
        for series in (band.recent, band.closes):
            yield np.array(series.times, np.int64), np.array(series.orders, np.uint64), np.array(series.prices)
    ticks = [tick for some in state.left.values() for tick in some]
    ticks += [tick for one in archived for tick in one.ticks()]
    if ticks:
        times, orders, prices = zip(*ticks, strict=True)
        yield np.array(times, np.int64), np.array(orders, np.uint64), np.array(prices)
