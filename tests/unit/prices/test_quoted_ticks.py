"""Ticks that are quoted in another token.

Their prices depend only on the set of ticks, and not on the order.
"""

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.price import state
from headwater.model.price.quote_history import QUOTE_STALE_MS
from headwater.model.price.series import Tick
from headwater.model.price.tick import TICKS_PARTITIONS, TICKS_TOPIC, encode_tick, key_of_quoted_ticks, partition_of
from headwater.model.record import RecordBatch
from headwater.prices.price_writer import PriceWriter
from headwater.prices.quoted_ticks import LATE_USD_TICKS_MS, MAX_AGE_MS
from headwater.services.prices import PriceResult, Prices, Token
from headwater.stores.protocols.prices import PriceStore
from tests.examples import examples
from tests.support.memory.prices import MemoryPrices
from tests.support.prices import DAY, HOUR, MINUTE, brute_force, figures, in_usd

START = 1_767_323_045_678
TOKENS = ("0xaa", "0xbb", "So11")
QUOTES = ("0xee", "0xff")
SETTLED_BY = LATE_USD_TICKS_MS + 3 * MINUTE


class Fed(NamedTuple):
    """A pipeline's tick. `quote` is empty if the price is in USD."""

    token: str
    tick: Tick
    quote: str = ""

    def record(self) -> bytes:
        time, order, price = self.tick
        quoted: dict[str, Any] = {"price_quote": price, "quote_address": self.quote.upper().replace("X", "x")}
        place = {"timestamp": time, "log_index": order, "decimals": 6}
        record = {"chain": "base", "token_address": self.token} | place
        return json.dumps(record | (quoted if self.quote else {"price_usd": price})).encode()


class Worker:
    """A prices worker on topics in memory, with its store and a test clock.

    Tests kill and restart it.
    """

    def __init__(self, store: PriceStore | None = None) -> None:
        self.store = store or MemoryPrices()
        self.now = START
        self.fed: set[Fed] = set()
        self._topic: list[list[tuple[bytes, bytes]]] = [[] for _ in range(TICKS_PARTITIONS)]
        self.start()

    def start(self) -> None:
        """Start a new worker, which rereads ticks that the previous one had not stored."""
        self.writer = PriceWriter(self.store, f"writer {random.random()}", lambda: self.now / 1000)
        found = self.writer.acquire_partitions(range(TICKS_PARTITIONS))
        self._positions = {partition: found.get(partition, 0) for partition in range(TICKS_PARTITIONS)}

    def feed(self, ticks: Iterable[Fed]) -> None:
        for fed in ticks:
            key, value = encode_tick(fed.record(), self.now)
            self._topic[partition_of(key)].append((key, value))
            self.fed.add(fed)

    def read(self, partitions: Sequence[int] = range(TICKS_PARTITIONS)) -> None:
        for partition in partitions:
            start, records = self._positions[partition], self._topic[partition]
            if rest := records[start:]:
                keys, values = zip(*rest, strict=True)
                zeros, places = [0] * len(rest), [*range(start, len(records))]
                columns = ([*values], [*keys], zeros, [partition] * len(rest), places, zeros)
                self.writer.add(RecordBatch.of(TICKS_TOPIC, *columns))
                self._positions[partition] = len(records)

    def store_all(self) -> None:
        self.read()
        self.writer.write(dict(self._positions))

    def settle(self) -> None:
        """Advance the clock until all ticks are settled."""
        for _ in range(2):
            self.now += SETTLED_BY
            self.writer.write({})

    def ask(self, *tokens: str, filter_outliers: bool = True) -> PriceResult:
        prices = Prices(
            self.store, lambda: datetime.fromtimestamp(self.now / 1000, UTC), filter_outliers=filter_outliers
        )
        return prices.read([Token("base", token) for token in tokens])

    def ticks_of(self, token: str) -> dict[Tick, int]:
        """Return all ticks of a token in USD, with the ages of their quotes."""
        found: dict[Tick, int] = {fed.tick: 0 for fed in self.fed if fed.token == token and not fed.quote}
        for quote in QUOTES:
            quoted = [fed.tick for fed in self.fed if fed.token == token and fed.quote == quote]
            known = [fed.tick for fed in self.fed if fed.token == quote and not fed.quote]
            found |= in_usd(quoted, known)
        return {tick: age for tick, age in found.items() if tick[0] <= self.now}

    def check(self, *, filter_outliers: bool = True) -> None:
        """Compare the statistics with the definitions."""
        tokens = (*TOKENS, *QUOTES)
        result = self.ask(*tokens, filter_outliers=filter_outliers)
        for row, token in enumerate(tokens):
            ticks = self.ticks_of(token)
            assert figures(result.stats[row]) == brute_force(ticks, self.now, filter_outliers=filter_outliers), token
            stats = result.stats[row]
            if stats is not None:
                ages = {age for tick, age in ticks.items() if tick == (stats.time_ms, stats.order, stats.latest)}
                assert result.quote_stale[row] == (max(ages) > QUOTE_STALE_MS)


ages = st.one_of(
    st.integers(-2 * MINUTE, 20 * MINUTE), st.integers(0, 3 * HOUR), st.integers(0, 23 * HOUR),
    st.integers(0, 30).map(lambda minute: minute * MINUTE), st.integers(0, 22).map(lambda hour: hour * HOUR),
)  # fmt: skip
usd = st.one_of(st.floats(1, 4), st.floats(1.1, 1.9), st.sampled_from([1.0, 2.0, 1e6]))
ticks = st.tuples(ages.map(lambda age: START - age), st.integers(0, 3), usd)
fed = st.one_of(
    st.builds(Fed, st.sampled_from(TOKENS), ticks, st.sampled_from(QUOTES)),
    st.builds(Fed, st.sampled_from(TOKENS), ticks, st.sampled_from(QUOTES)),
    st.builds(Fed, st.sampled_from(QUOTES), ticks, st.just("")),
    st.builds(Fed, st.sampled_from(QUOTES), ticks, st.just("")),
    st.builds(Fed, st.sampled_from(TOKENS), ticks, st.just("")),
    st.builds(Fed, st.just(QUOTES[1]), ticks, st.just(QUOTES[0])),
)


def arrive(worker: Worker, ticks: Sequence[Fed], draw: random.Random) -> None:
    """Feed all ticks within the window, in random order and with repeats.

    Meanwhile the worker is killed at random.
    """
    arrivals = sorted(
        (draw.randrange(LATE_USD_TICKS_MS), fed) for fed in [*ticks, *draw.sample(ticks, len(ticks) // 5)]
    )
    for arrival, one in arrivals:
        worker.now = max(worker.now, START + arrival)
        worker.feed([one])
        match draw.randrange(8):
            case 0:
                worker.start()
            case 1 | 2:
                worker.store_all()
            case 3:
                worker.read(draw.sample(range(TICKS_PARTITIONS), 5))
    worker.store_all()


def check_any_order(ticks: list[Fed], wait: int, filter_outliers: bool, draw: random.Random, many: int) -> None:
    worker = Worker()
    with patch.object(state, "ARCHIVE_ABOVE_TICKS", many):
        arrive(worker, ticks, draw)
        worker.check(filter_outliers=filter_outliers)
        if draw.random() < 0.5:
            worker.start()
        worker.settle()
        worker.check(filter_outliers=filter_outliers)
        assert not any(worker.store.unsettled(partition) for partition in range(TICKS_PARTITIONS))
        worker.feed(draw.sample(ticks, len(ticks) // 3))  # repeats change nothing, settled or not
        worker.store_all()
        worker.check(filter_outliers=filter_outliers)
        worker.settle()
        worker.now += wait
        worker.check(filter_outliers=filter_outliers)


any_order = given(
    st.lists(fed, min_size=1, max_size=50),
    st.integers(0, 30 * HOUR),
    st.booleans(),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 5, 1024]),
)
test_ticks_and_quotes_in_any_order = settings(max_examples=examples(30), deadline=None)(any_order(check_any_order))
test_many_ticks_and_quotes_in_any_order = pytest.mark.long(
    settings(max_examples=examples(600), deadline=None)(any_order(check_any_order))
)


def day_of_trade(draw: random.Random, count: int) -> list[Fed]:
    """Generate ticks of a token in USD and in a quote token.

    The quote token has ticks, too, and there are outliers.
    """
    found, price, quote = list[Fed](), 0.004, 2000.0
    for number in range(count):
        time = START - 20 * HOUR + number * 20 * HOUR // count + draw.randrange(1000)
        price, quote = price * draw.uniform(0.99, 1.01), quote * draw.uniform(0.995, 1.005)
        absurd = draw.uniform(5, 1e5) if draw.random() < 0.01 else 1
        match draw.randrange(3):
            case 0:
                found.append(Fed("0xee", (time, number, quote * absurd)))
            case 1:
                found.append(Fed("0xaa", (time, number, price * absurd), "0xee"))
            case 2:
                found.append(Fed("0xaa", (time, number, price * quote * absurd)))
    return found


@pytest.mark.parametrize("many", [20, 1024])
@pytest.mark.parametrize("seed", range(2))
def test_a_day_of_trade(seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ARCHIVE_ABOVE_TICKS", many)
    draw = random.Random(seed)
    worker, ticks = Worker(), day_of_trade(draw, 900)
    for at in range(0, len(ticks), 100):
        block = ticks[at : at + 100]
        draw.shuffle(block)
        worker.now = max(fed.tick[0] for fed in block)
        for one in block:
            worker.feed([one])
            if draw.random() < 0.1:
                worker.store_all()
        worker.store_all()
        worker.check()
    worker.now = START
    for _ in range(6):
        worker.now += draw.randrange(5 * HOUR)
        worker.store_all()
        worker.check()


def test_a_tick_waits_for_its_quote() -> None:
    worker = Worker()
    worker.feed([Fed("0xaa", (START - 1000, 0, 0.5), "0xee")])
    worker.store_all()
    assert worker.ask("0xaa").statuses == ["unknown_token"]
    worker.now += LATE_USD_TICKS_MS - 1000
    worker.feed([Fed("0xee", (START - 2000, 0, 3000.0)), Fed("0xee", (START - 999, 0, 9000.0))])
    worker.store_all()
    [stats] = worker.ask("0xaa").stats
    assert stats is not None
    assert (stats.latest, stats.time_ms, stats.decimals) == (1500.0, START - 1000, 6)
    worker.settle()
    worker.check()
    assert worker.writer.unpriced == 0


def test_a_tick_without_a_quote_is_dropped() -> None:
    worker = Worker()
    worker.feed([Fed("0xaa", (START - 1000, 0, 0.5), "0xee")])
    worker.store_all()
    worker.settle()
    assert worker.writer.unpriced == 1
    worker.feed([Fed("0xee", (START - 2000, 0, 3000.0))])
    worker.store_all()
    assert worker.ask("0xaa").statuses == ["unknown_token"]


def test_a_tick_older_than_the_quotes_history_is_dropped() -> None:
    worker = Worker()
    worker.feed([Fed("0xee", (START - 2 * DAY, 0, 3000.0)), Fed("0xaa", (START - MAX_AGE_MS - 1, 0, 0.5), "0xee")])
    worker.store_all()
    assert worker.writer.unpriced == 1
    assert worker.ask("0xaa").statuses == ["unknown_token"]


def test_a_token_that_is_quoted_prices_no_other() -> None:
    worker = Worker()
    chain = [Fed("0xff", (START, 0, 2.0), "0xee"), Fed("0xaa", (START, 0, 2.0), "0xff")]
    worker.feed([Fed("0xee", (START, 0, 3.0)), *chain])
    worker.store_all()
    assert worker.ask("0xff", "0xaa").statuses == ["ok", "unknown_token"]
    worker.settle()
    assert worker.ask("0xff", "0xaa").statuses == ["ok", "unknown_token"]


@pytest.mark.parametrize(("age", "is_stale"), [(HOUR, False), (HOUR + 1, True)])
def test_an_old_quote_price_is_reported(age: int, is_stale: bool) -> None:
    worker = Worker()
    worker.feed([Fed("0xee", (START - age, 0, 3.0)), Fed("0xaa", (START, 0, 2.0), "0xee")])
    worker.store_all()
    assert worker.ask("0xaa", "0xee").quote_stale == [is_stale, False]
    worker.settle()
    assert worker.ask("0xaa", "0xee").quote_stale == [is_stale, False]
    worker.feed([Fed("0xaa", (START + 1, 0, 2.0))])
    worker.store_all()
    assert worker.ask("0xaa").quote_stale == [False]


def test_many_ticks_are_settled_before_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.prices.quoted_ticks.MAX_UNSETTLED_BYTES", 2000)
    worker = Worker()
    ahead = Fed("0xaa", (START + MINUTE, 0, 1.25), "0xee")
    worker.feed([Fed("0xee", (START - HOUR, 0, 3.0)), ahead])
    for number in range(100):
        worker.feed([Fed("0xaa", (START - number, number, 1 + number / 1000), "0xee")])
        worker.store_all()
    partition, key = partition_of(b"base:0xaa"), key_of_quoted_ticks(b"base:0xaa")
    [(_, tail)] = worker.store.read(partition, [key])
    assert len(tail or b"") < 2100
    worker.check()
    worker.now += 2 * MINUTE
    worker.check()


def test_quoted_ticks_are_validated() -> None:
    worker = Worker()
    worker.feed([Fed("So11", (START, 7, 0.25), "0xee")])
    [(key, value)] = [record for records in worker._topic for record in records]
    assert (key, value[25:]) == (b"base:so11\0quoted", b"0xee\0So11")
    assert partition_of(key) == partition_of(b"base:so11")


@pytest.mark.parametrize("is_settled", [False, True])
def test_outliers_are_detected_over_quoted_and_dollar_prices(*, is_settled: bool) -> None:
    worker = Worker()
    worker.feed([Fed("0xee", (START - HOUR, 0, 1000.0)), Fed("0xaa", (START, 0, 1000.0), "0xee")])
    worker.feed(Fed("0xaa", (START - minute * MINUTE, 0, 100.0)) for minute in range(1, 6))
    worker.store_all()
    if is_settled:
        worker.settle()
    result = worker.ask("0xaa")
    [stats] = result.stats
    assert stats is not None
    assert (stats.latest, stats.high_24h, stats.unaccepted_since) == (100.0, 100.0, START)
    assert result.statuses == ["held"]
    worker.check()
