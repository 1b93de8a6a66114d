"""The price writer keeps states and positions consistent during any failures."""

import json
import random
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from headwater.errors import RedisUnavailable, WorkerError
from headwater.model.price.band import HOUR_MS
from headwater.model.price.series import Tick
from headwater.model.price.tick import (
    TICKS_PARTITIONS,
    TICKS_TOPIC,
    encode_tick,
    encode_value,
    key_of_quoted_ticks,
    partition_of,
)
from headwater.model.record import RecordBatch
from headwater.prices.price_writer import PriceWriter
from headwater.prices.worker import PriceDelivery
from headwater.services.prices import Prices, Token
from headwater.stores.protocols.prices import LIST_PERIOD_S, PriceWrite
from tests.support.memory.prices import MemoryPrices
from tests.support.prices import brute_force, figures

NOW = 1_767_323_045_678
Record = tuple[bytes, bytes]


class Topic:
    """The ticks topic in memory, and all ticks by token."""

    def __init__(self) -> None:
        self.partitions: list[list[Record]] = [[] for _ in range(TICKS_PARTITIONS)]
        self.ticks: dict[str, list[Tick]] = {}

    def add(self, address: str, tick: Tick) -> None:
        time, order, price = tick
        record = {
            "chain": "base",
            "token_address": address,
            "price_usd": price,
            "timestamp": time,
            "decimals": 6,
            "log_index": order,
        }
        key, value = encode_tick(json.dumps(record).encode(), NOW)
        self.partitions[partition_of(key)].append((key, value))
        self.ticks.setdefault(address, []).append(tick)

    def batch(self, partition: int, start: int, end: int) -> RecordBatch:
        records = self.partitions[partition][start:end]
        count = len(records)
        return RecordBatch.of(
            TICKS_TOPIC,
            [value for _, value in records],
            [key for key, _ in records],
            [0] * count,
            [partition] * count,
            list(range(start, start + count)),
            [0] * count,
        )


class Unreliable(MemoryPrices):
    """A store that fails at random, also within a write.

    It fails after the archive, the states or the tails.
    """

    def __init__(self, draw: random.Random, share: float) -> None:
        super().__init__()
        self._draw = draw
        self.share = share

    def _fail_sometimes(self) -> None:
        if self._draw.random() < self.share:
            raise RedisUnavailable("away")

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        self._fail_sometimes()
        return super().read(partition, tokens)

    def write(self, partition: int, writer: str, written: PriceWrite) -> Mapping[bytes, int] | None:
        self._fail_sometimes()
        self._archived |= written.archived
        self._fail_sometimes()
        for token, state in self._some(written.states):
            self._states[partition, token] = state
            self._tails.pop((partition, token), None)
        self._fail_sometimes()
        for token, tail in self._some(written.tails):
            self._tails[partition, token] = self._tails.get((partition, token), b"") + tail
        self._fail_sometimes()
        done = super().write(partition, writer, written)
        self._fail_sometimes()
        return done

    def _some(self, written: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        return self._draw.sample([*written.items()], self._draw.randint(0, len(written)))

    def copy(self) -> dict[str, Any]:
        return {name: dict(getattr(self, name)) for name in ("_positions", "_states", "_tails", "_archived")}

    def go_back(self, copy: dict[str, Any]) -> None:
        """Lose the last writes, like a server after a crash."""
        for name, value in copy.items():
            setattr(self, name, dict(value))


def trades(draw: random.Random, tokens: int, count: int) -> Topic:
    topic, written = Topic(), list[tuple[str, Tick]]()
    for number in range(count):
        address = f"0x{draw.randrange(tokens):040x}"
        back = draw.choice([HOUR_MS // 2, 30 * HOUR_MS, 30 * HOUR_MS])
        written.append((address, (NOW - draw.randrange(back), number, draw.uniform(1, 3))))
    written.sort(key=lambda one: one[1][0] + draw.randrange(300_000))
    for address, tick in [*written, *draw.sample(written, count // 20)]:
        topic.add(address, tick)
    return topic


def check(store: MemoryPrices, topic: Topic, now: int = NOW) -> None:
    prices = Prices(store, lambda: datetime.fromtimestamp(now / 1000, UTC), filter_outliers=True)
    for address, ticks in topic.ticks.items():
        [stats] = prices.read([Token("base", address)]).stats
        assert figures(stats) == brute_force(ticks, now), address


def work(writer: PriceWriter, topic: Topic, positions: dict[int, int], draw: random.Random, steps: int) -> None:
    """Add and write ticks as a worker does, which retries while the store is unavailable."""
    for _ in range(steps):
        partition = draw.randrange(TICKS_PARTITIONS)
        start = positions.get(partition, 0)
        batch = topic.batch(partition, start, start + draw.randint(1, 50))
        try:
            writer.add(batch)
        except RedisUnavailable:
            continue
        positions[partition] = start + len(batch)
        if draw.random() < 0.3:
            try:
                writer.write(dict(positions))
            except RedisUnavailable:
                continue


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("many", [20, 1024])
def test_kills_and_outages_change_nothing(seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.model.price.state.ARCHIVE_ABOVE_TICKS", many)
    draw = random.Random(seed)
    topic, store = trades(draw, 4, 1500), Unreliable(draw, 0.15)
    for life in range(12):
        writer = PriceWriter(store, f"worker {life}", lambda: NOW / 1000)
        work(writer, topic, dict(writer.acquire_partitions(range(TICKS_PARTITIONS))), draw, 60)
    store.share = 0
    last = PriceWriter(store, "last", lambda: NOW / 1000)
    positions = last.acquire_partitions(range(TICKS_PARTITIONS))
    for partition in range(TICKS_PARTITIONS):
        last.add(topic.batch(partition, positions.get(partition, 0), 10**6))
    last.write({p: len(records) for p, records in enumerate(topic.partitions)})
    for hours in range(25):
        check(store, topic, NOW + hours * HOUR_MS + 1_000_000)


def test_a_store_that_lost_writes_is_detected() -> None:
    draw = random.Random(9)
    topic, store = trades(draw, 6, 600), Unreliable(draw, 0)
    writer, positions = PriceWriter(store, "first", lambda: NOW / 1000), dict[int, int]()
    writer.acquire_partitions(range(TICKS_PARTITIONS))
    work(writer, topic, positions, draw, 60)
    before = store.copy()
    work(writer, topic, positions, draw, 60)
    writer.write(dict(positions))
    store.go_back(before)
    with pytest.raises(WorkerError, match="lost its last write"):
        writer.write({p: len(records) for p, records in enumerate(topic.partitions)})
    again = PriceWriter(store, "second", lambda: NOW / 1000)
    positions = dict(again.acquire_partitions(range(TICKS_PARTITIONS)))
    for partition in range(TICKS_PARTITIONS):
        again.add(topic.batch(partition, positions.get(partition, 0), 10**6))
    again.write({p: len(records) for p, records in enumerate(topic.partitions)})
    check(store, topic)


def test_records_that_no_sink_has_written_are_skipped() -> None:
    topic, store = Topic(), MemoryPrices()
    topic.add("0xaa", (NOW, 0, 1.0))
    [partition] = [p for p, records in enumerate(topic.partitions) if records]
    topic.partitions[partition] += [(b"key", b"short"), (None, b"x" * 25), (b"key", None)]  # type: ignore[list-item]
    writer = PriceWriter(store, "one", lambda: NOW / 1000)
    writer.acquire_partitions([partition])
    writer.add(topic.batch(partition, 0, 4))
    writer.write({partition: 4})
    assert writer.ticks == 1
    check(store, topic)


def test_a_worker_that_lost_its_partition_writes_nothing() -> None:
    topic, store = Topic(), MemoryPrices()
    topic.add("0xaa", (NOW, 0, 1.0))
    [partition] = [p for p, records in enumerate(topic.partitions) if records]
    old, new = PriceWriter(store, "old"), PriceWriter(store, "new")
    old.acquire_partitions([partition])
    old.add(topic.batch(partition, 0, 1))
    assert new.acquire_partitions([partition]) == {}
    with pytest.raises(WorkerError, match=f"owns partition {partition}"):
        old.write({partition: 1})
    assert store.read(partition, [b"base:0xaa"]) == [(None, None)]


def test_ticks_that_were_not_written_are_read_again() -> None:
    topic, store = Topic(), MemoryPrices()
    topic.add("0xaa", (NOW, 0, 1.0))
    [partition] = [p for p, records in enumerate(topic.partitions) if records]
    writer = PriceWriter(store, "one", lambda: NOW / 1000)
    writer.acquire_partitions([partition])
    writer.add(topic.batch(partition, 0, 1))
    writer.forget([partition])
    writer.write({})
    assert writer.acquire_partitions([partition]) == {}


def test_reading_is_limited_by_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.prices.price_writer.MAX_TICKS_IN_MEMORY", 50)
    draw = random.Random(1)
    topic, store = trades(draw, 4, 400), Unreliable(draw, 0)
    writer, positions = PriceWriter(store, "one", lambda: NOW / 1000), dict[int, int]()
    writer.acquire_partitions(range(TICKS_PARTITIONS))
    store.share = 1
    work(writer, topic, positions, draw, 200)
    assert 50 < writer.ticks <= 100
    store.share = 0
    writer.write(dict(positions))
    for partition, records in enumerate(topic.partitions):
        writer.add(topic.batch(partition, positions.get(partition, 0), len(records)))
        writer.write({partition: len(records)})
    check(store, topic)


def test_many_ticks_are_written_early_unless_the_store_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.prices.worker.FLUSH_AT_TICKS", 50)
    draw = random.Random(1)
    topic, store = trades(draw, 1, 80), Unreliable(draw, 0)
    [partition] = [p for p, records in enumerate(topic.partitions) if records]
    writer = PriceWriter(store, "one", lambda: NOW / 1000)
    delivery = PriceDelivery(writer)
    writer.acquire_partitions([partition])
    writer.add(topic.batch(partition, 0, 20))
    assert delivery.backpressure().capacity == 30
    writer.add(topic.batch(partition, 20, 60))
    assert delivery.backpressure().capacity == 0
    store.share = 1
    with pytest.raises(RedisUnavailable):
        delivery.commit({partition: 60})
    assert delivery.backpressure().capacity > 50
    store.share = 0
    delivery.commit({})
    assert delivery.backpressure().capacity == 50
    writer.add(topic.batch(partition, 60, 84))
    writer.write({partition: 84})
    check(store, topic)


def test_the_cache_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.prices.price_writer.MAX_CACHED_TOKENS", 5)
    draw = random.Random(1)
    topic, store = trades(draw, 40, 400), MemoryPrices()
    writer, positions = PriceWriter(store, "one", lambda: NOW / 1000), dict[int, int]()
    writer.acquire_partitions(range(TICKS_PARTITIONS))
    for _ in range(3):
        work(writer, topic, positions, draw, 40)
        writer.write(dict(positions))
        assert len(writer._accepted_bands) <= 5
    for partition, records in enumerate(topic.partitions):
        writer.add(topic.batch(partition, positions.get(partition, 0), len(records)))
        writer.write({partition: len(records)})
    check(store, topic)


def test_few_ticks_are_appended_and_many_are_folded() -> None:
    topic, store, token = Topic(), MemoryPrices(), b"base:0xaa"
    partition = partition_of(token)
    writer = PriceWriter(store, "one", lambda: NOW / 1000)
    writer.acquire_partitions([partition])
    forms = []
    for number in range(50):
        topic.add("0xaa", (NOW - 50 + number, 0, 1.5 if number < 45 else 9e6))
        writer.add(topic.batch(partition, number, number + 1))
        writer.write({partition: number + 1})
        [(state, tail)] = store.read(partition, [token])
        forms.append((state is not None, len(tail or b"") // 26))
        check(store, topic)
    assert forms[:20] == [(False, count) for count in range(1, 21)]
    assert forms[20:22] == [(True, 0), (True, 1)]
    assert forms[44][1] > 0
    assert forms[45] == (True, 0)  # other prices are folded immediately


def test_ignored_prices_are_counted() -> None:
    topic, store = Topic(), MemoryPrices()
    for minute in range(5):
        topic.add("0xaa", (NOW - minute * 60_000, 0, 100.0))
    topic.add("0xaa", (NOW, 1, 9e6))
    [partition] = [p for p, records in enumerate(topic.partitions) if records]
    writer = PriceWriter(store, "one", lambda: NOW / 1000)
    writer.acquire_partitions([partition])
    writer.add(topic.batch(partition, 0, 6))
    writer.write({partition: 6})
    assert (writer.ticks, writer.outliers) == (6, 1)
    check(store, topic)


def test_a_token_that_is_only_folded_in_a_period_is_listed_with_its_next_tick() -> None:
    topic, store, now, key = Topic(), MemoryPrices(), [NOW], b"base:0xaa"
    partition = partition_of(key)
    writer = PriceWriter(store, "one", lambda: now[0] / 1000)
    writer.acquire_partitions([partition])
    for number in range(20):  # the tail is too long then, and is folded with the next write
        topic.add("0xaa", (NOW - 50 + number, 0, 1.5))
        writer.add(topic.batch(partition, number, number + 1))
        writer.write({partition: number + 1})
    assert store.read(partition, [key])[0][0] is None
    now[0] += LIST_PERIOD_S * 1000
    writer.write({partition: 21})
    assert store.read(partition, [key])[0][0] is not None
    value = encode_value(now[0], 0, 1.5, 6)
    writer.add(RecordBatch.of(TICKS_TOPIC, [value], [key], [0], [partition], [0], [0]))
    writer.write({partition: 22})
    assert store.tokens_after(b"", b"", 9, now[0] // 1000 // LIST_PERIOD_S + 1) == [key]


def test_tokens_are_listed_once_in_each_period() -> None:
    class Counting(MemoryPrices):
        calls = 0

        def add_tokens(self, tokens: Collection[bytes], period: int) -> None:
            self.calls += 1
            super().add_tokens(tokens, period)

    def batch_of(key: bytes, value: bytes, partition: int) -> RecordBatch:
        return RecordBatch.of(TICKS_TOPIC, [value], [key], [0], [partition], [0], [0])

    store, now = Counting(), [NOW]
    writer = PriceWriter(store, "one", lambda: now[0] / 1000)
    writer.acquire_partitions(range(TICKS_PARTITIONS))
    keys = [b"base:a", key_of_quoted_ticks(b"base:b")]
    for end in (1, 2):
        for key in keys:
            value = encode_value(now[0], 0, 1.0, 6) + (b"0xcc\0" if key != keys[0] else b"")
            partition = partition_of(key)
            writer.add(batch_of(key, value, partition))
            writer.write({partition: end})
    period = NOW // 1000 // LIST_PERIOD_S
    assert store.calls == 2
    assert store.tokens_after(b"", b"", 9, period) == [b"base:a", b"base:b"]
    now[0] += LIST_PERIOD_S * 1000
    writer.add(batch_of(keys[0], encode_value(now[0], 0, 1.0, 6), partition_of(keys[0])))
    writer.write({partition_of(keys[0]): 3})
    assert store.tokens_after(b"", b"", 9, period + 2) == [b"base:a"]
