"""Explanations and histories of token prices."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.price.band import HOUR_MS, band_of, hour_of
from headwater.model.price.quoted_state import encode_entries
from headwater.model.price.series import Tick
from headwater.model.price.tail import encode_tail
from headwater.model.price.tick import encode_value, key_of_quoted_ticks, partition_of, token_key
from headwater.services.price_details import MAX_EXPLAINED, ExplainedPrice, PriceDetails
from headwater.services.prices import Prices
from headwater.stores.protocols.prices import LIST_PERIOD_S, PriceWrite
from tests.examples import examples
from tests.support.memory.prices import MemoryPrices
from tests.support.prices import DAY, MINUTE
from tests.unit.services.test_prices import NOW, QUIET, TOKEN, crash, stored


def details(store: MemoryPrices, *, filter_outliers: bool = True) -> PriceDetails:
    def now() -> datetime:
        return datetime.fromtimestamp(NOW / 1000, UTC)

    prices = Prices(store, now, filter_outliers=filter_outliers)
    return PriceDetails(store, prices, now, filter_outliers=filter_outliers)


def explained(ticks: Iterable[Tick], *, filter_outliers: bool = True) -> ExplainedPrice:
    return details(stored({TOKEN: ticks}), filter_outliers=filter_outliers).explain(TOKEN)


class TestExplanation:
    def test_the_lows_and_highs_have_the_time_of_their_last_trade(self) -> None:
        ticks = [(NOW - at * MINUTE, 0, price) for at, price in ((600, 110), (30, 90), (20, 105), (10, 90), (1, 100))]
        explanation = explained(ticks).explanation
        assert explanation is not None
        assert (explanation.day.start_ms, explanation.hour.start_ms) == (NOW - DAY, NOW - HOUR_MS)
        assert (explanation.day.low, explanation.day.high) == (ticks[3], ticks[0])
        assert (explanation.hour.low, explanation.hour.high) == (ticks[3], ticks[2])
        assert explanation.accepted == sorted(ticks, reverse=True)
        assert explanation.unaccepted == []

    @pytest.mark.parametrize(("filter_outliers", "count"), [(True, 2), (False, 0)])
    def test_prices_that_are_not_accepted(self, filter_outliers: bool, count: int) -> None:
        price = explained(crash(1), filter_outliers=filter_outliers)
        explanation = price.explanation
        assert explanation is not None
        assert price.status == ("held" if filter_outliers else "ok")
        assert [tick[2] for tick in explanation.unaccepted] == [10.0] * count
        assert [(band.number, band.active_minutes, band.is_accepted) for band in explanation.bands] == [
            (band_of(100.0), 478, True),
            (band_of(10.0), 2, not filter_outliers),
        ]
        assert explanation.required_minutes == 5
        assert len(explanation.accepted) == MAX_EXPLAINED

    @given(st.lists(st.tuples(st.integers(0, 30 * 60), st.sampled_from((1.0, 1.5, 3.0, 90.0, 95.0))), min_size=1))
    @settings(max_examples=examples(60))
    def test_it_agrees_with_the_statistics(self, trades: list[tuple[int, float]]) -> None:
        price = explained([(NOW - at * MINUTE, at, value) for at, value in trades])
        explanation, stats = price.explanation, price.stats
        assert explanation is not None
        assert stats is not None
        assert explanation.accepted[0] == (stats.time_ms, stats.order, stats.latest)
        for window, low, high in (
            (explanation.day, stats.low_24h, stats.high_24h),
            (explanation.hour, stats.low_1h, stats.high_1h),
        ):
            if window.low is not None and window.high is not None:
                assert (window.low[2], window.high[2]) == (low, high)
            else:
                assert low == high == stats.latest
        held = [tick for tick in explanation.unaccepted if tick > explanation.accepted[0]]
        assert bool(held) == (price.status == "held")

    def test_ticks_of_the_tail_and_quoted_ticks_count(self) -> None:
        store = stored({TOKEN: [(NOW - 3 * MINUTE, 0, 100.0)], QUIET: [(NOW - 2 * HOUR_MS, 0, 2.0)]})
        key = token_key(*TOKEN).encode()
        quoted = encode_entries([encode_value(NOW - MINUTE, 0, 60.0, 6) + b"0xbb\0"], NOW)
        tail = encode_tail([encode_value(NOW - 2 * MINUTE, 0, 101.0, 6)])
        tails = {key: tail, key_of_quoted_ticks(key): quoted}
        store.write(partition_of(key), "one", PriceWrite(2, {}, {}, tails))
        explanation = details(store).explain(TOKEN).explanation
        assert explanation is not None
        assert [tick[2] for tick in explanation.accepted] == [120.0, 101.0, 100.0]

    def test_an_unknown_token(self) -> None:
        price = details(stored({})).explain(TOKEN)
        assert (price.status, price.stats, price.explanation) == ("unknown_token", None, None)


class TestHistory:
    def test_one_point_for_each_hour_and_for_each_5_minutes(self) -> None:
        ticks = [(NOW - at * MINUTE, 0, 1.0 + at / 10_000) for at in range(26 * 60)]
        points = details(stored({TOKEN: ticks})).history(TOKEN)
        assert points[-1] == ticks[0]
        assert list(points) == sorted(points)
        window_start = hour_of(NOW - HOUR_MS)
        hours = [tick for tick in points if tick[0] < window_start]
        assert len({hour_of(tick[0]) for tick in hours}) == len(hours) == 24
        assert all(tick[0] % HOUR_MS >= 59 * MINUTE for tick in hours)
        recent = [tick for tick in points if tick[0] >= window_start]
        assert {tick[0] // (5 * MINUTE) for tick in recent} == {t[0] // (5 * MINUTE) for t in ticks if t in recent}
        assert len(points) <= 60

    def test_prices_that_are_not_accepted_are_left_out(self) -> None:
        assert {tick[2] for tick in details(stored({TOKEN: crash(2)})).history(TOKEN)} == {100.0}
        points = details(stored({TOKEN: crash(2)}), filter_outliers=False).history(TOKEN)
        assert points[-1][2] == 10.0

    def test_an_unknown_token(self) -> None:
        assert details(stored({})).history(TOKEN) == []


class TestTokens:
    @pytest.mark.parametrize("query", ["h", "s", "S"])
    def test_a_query_that_is_also_the_beginning_of_a_chain(self, query: str) -> None:
        store, period = MemoryPrices(), NOW // 1000 // LIST_PERIOD_S
        keys = [
            f"{chain}:{query.lower()}{number}".encode() for chain in ("hyperliquid", "solana") for number in range(4)
        ]
        for key in keys:
            tail = encode_tail([encode_value(NOW, 0, 1.0, 6)])
            store.write(partition_of(key), "w", PriceWrite(1, {}, {}, {key: tail}))
        store.add_chains(["hyperliquid", "solana"])
        store.add_tokens(keys, period)
        listed, last = [], ""
        while True:
            page, after = details(store).tokens(query, last, 3)
            listed += [f"{token.chain}:{token.address}".encode() for token in page.tokens]
            if after is None:
                break
            last = after
        assert listed == keys
