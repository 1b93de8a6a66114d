"""Computes the statistics of a token from all of its ticks, directly by the definitions.

The definitions are in docs/prices.md. The computation is slow.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from headwater.model.price.series import Tick
from headwater.model.price.stats import Stats

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


class BruteForceStats(NamedTuple):
    """Statistics of a token.

    A change is None when the token had no price at the start of the period. `unaccepted_since` is None when no tick is
    later than the latest accepted tick.
    """

    time_ms: int
    latest: float
    low_24h: float
    high_24h: float
    low_1h: float
    high_1h: float
    change_24h: float | None
    change_1h: float | None
    unaccepted_since: int | None


def figures(stats: Stats | None) -> BruteForceStats | None:
    """Convert the package's statistics for a comparison with the results of `brute_force`."""
    return None if stats is None else BruteForceStats(*stats[1:9], stats.unaccepted_since)


def in_usd(quoted: Iterable[Tick], quote: Iterable[Tick]) -> dict[Tick, int]:
    """Return each quoted tick with its price in USD, and the age of the quote token's tick.

    Omit a tick when the quote token has no tick at or before its time, or only older ones than 7 days.
    """
    known, ages = sorted(quote), dict[Tick, int]()
    for time, order, price in quoted:
        before = [tick for tick in known if tick[0] <= time]
        if before and time - before[-1][0] < 7 * DAY:
            ages[time, order, price * before[-1][2]] = time - before[-1][0]
    return ages


def brute_force(
    ticks: Iterable[tuple[int, int, float]], now: int, *, filter_outliers: bool = True
) -> BruteForceStats | None:
    """Return the statistics at a time, from the ticks (time in ms, order, price) up to then."""
    known = sorted({tick for tick in ticks if tick[0] <= now})
    if not known:
        return None
    horizon = (known[-1][0] - 25 * HOUR) // HOUR * HOUR
    counted = _accepted(known, horizon) if filter_outliers else {_band(tick[2]) for tick in known}
    trades = [tick for tick in known if _band(tick[2]) in counted]
    latest = trades[-1]

    def window(width: int) -> tuple[float, float, float | None]:
        prices = [price for time, _, price in trades if now - width < time] or [latest[2]]
        bases = [t for t in known if t[0] <= now - width and (t[0] < horizon or _band(t[2]) in counted)]
        change = (latest[2] - bases[-1][2]) / bases[-1][2] * 100 if bases else None
        return min(prices), max(prices), change

    low_24h, high_24h, change_24h = window(DAY)
    low_1h, high_1h, change_1h = window(HOUR)
    unaccepted_since = next((tick[0] for tick in known if tick > latest), None)
    return BruteForceStats(
        latest[0], latest[2], low_24h, high_24h, low_1h, high_1h, change_24h, change_1h, unaccepted_since
    )


def _band(price: float) -> int:
    return math.floor(math.log2(price)) + 1 if price == 2 ** round(math.log2(price)) else math.ceil(math.log2(price))


def _accepted(known: Iterable[tuple[int, int, float]], horizon: int) -> set[int]:
    minutes: dict[int, set[int]] = {}
    for time, _, price in known:
        minutes.setdefault(_band(price), set())
        if time >= horizon:
            minutes[_band(price)].add(time // MINUTE)
    need = max(3, math.ceil(sum(map(len, minutes.values())) / 100))
    established = {band for band, seen in minutes.items() if len(seen) >= need}
    near = {band for band in minutes if established & {band - 1, band, band + 1}}
    return near if established else set(minutes)
