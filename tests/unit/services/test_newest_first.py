"""Records of a topic are read from the newest to the oldest."""

import random
from collections.abc import Iterable, Iterator, Mapping

import pytest

from headwater.brokers.topic_history import LogChunk, LogRecord, OffsetRange
from headwater.services import newest_first
from headwater.services.newest_first import NewestFirst
from tests.support.memory.topic_history import MemoryTopicHistory

TOPIC = "flow.a.dlq"


def iterate(history: MemoryTopicHistory, ends: dict[int, int] | None = None) -> NewestFirst:
    ranges = history.ranges(TOPIC)
    return NewestFirst(history, TOPIC, ends or {number: each.end for number, each in ranges.items()}, ranges)


def values(records: Iterable[LogRecord]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_first, "MAX_FIRST_CHUNK", 2)
    monkeypatch.setattr(newest_first, "MAX_CHUNK", 4)


@pytest.fixture
def history() -> MemoryTopicHistory:
    history = MemoryTopicHistory()
    history.create(TOPIC, 3)
    return history


def test_no_records(history: MemoryTopicHistory) -> None:
    assert iterate(history).peek() is None
    assert list(iterate(history)) == []


def test_partitions_are_merged_by_timestamp(history: MemoryTopicHistory) -> None:
    for time, partition in enumerate([0, 1, 0, 2, 0, 0, 1, 0, 0, 0]):
        history.append(TOPIC, partition, 1_000 + time, b"%d" % time)
    assert values(iterate(history)) == [b"%d" % time for time in reversed(range(10))]


def test_the_order_of_a_partition_is_that_of_its_offsets(history: MemoryTopicHistory) -> None:
    for time in (3, 9, 1):
        history.append(TOPIC, 0, time, b"%d" % time)
    assert values(iterate(history)) == [b"1", b"9", b"3"]


def test_offsets_without_records_are_skipped(history: MemoryTopicHistory) -> None:
    history.append(TOPIC, 0, 1, b"first")
    history.skip(TOPIC, 0, 11)
    history.append(TOPIC, 0, 2, b"last")
    history.skip(TOPIC, 0, 7)
    history.skip(TOPIC, 1, 5)
    assert values(iterate(history)) == [b"last", b"first"]


def test_an_iteration_continues_at_its_positions(history: MemoryTopicHistory) -> None:
    for number in range(20):
        history.append(TOPIC, number % 2, number, b"%d" % number)
    records = iterate(history)
    first = [next(records) for _ in range(7)]
    history.append(TOPIC, 0, 99, b"later")
    rest = list(iterate(history, records.positions()))
    assert values([*first, *rest]) == [b"%d" % number for number in reversed(range(20))]


def test_records_that_retention_has_removed_are_skipped(history: MemoryTopicHistory) -> None:
    for number in range(10):
        history.append(TOPIC, 0, number, b"%d" % number)
    records = iterate(history)
    next(records)
    history.truncate(TOPIC, 0, 6)
    assert values(iterate(history, records.positions())) == [b"8", b"7", b"6"]
    history.truncate(TOPIC, 0, 10)
    assert values(iterate(history, records.positions())) == []


def test_large_records_are_read_again(history: MemoryTopicHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_first, "MAX_CHUNK_BYTES", 5)
    for number in range(9):
        history.append(TOPIC, number % 2, number, b"%d..." % number)
    assert values(iterate(history)) == [b"%d..." % number for number in reversed(range(9))]


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_large_records_make_small_chunks(
    history: MemoryTopicHistory, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(newest_first, "MAX_FIRST_CHUNK", 4)
    monkeypatch.setattr(newest_first, "MAX_CHUNK", 1_000)
    monkeypatch.setattr(newest_first, "MAX_CHUNK_BYTES", 1_000)
    chunks: list[int] = []
    read = history.read

    def record_size(topic: str, ranges: Mapping[int, OffsetRange], max_bytes: int) -> Mapping[int, LogChunk]:
        chunks.extend(each.end - each.start for each in ranges.values())
        return read(topic, ranges, max_bytes)

    for number in range(100):
        history.append(TOPIC, 0, number, b"%3d".ljust(size, b".") % number)
    monkeypatch.setattr(history, "read", record_size)
    assert len(list(iterate(history))) == 100
    assert chunks[0] == 4
    assert max(chunks[1:]) == {1: 64, 100: 10, 10_000: 1}[size]


def test_many_partitions_share_the_memory(history: MemoryTopicHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_first, "MAX_READ_BYTES", 15)
    limits: list[int] = []
    read = history.read

    def record_limit(topic: str, ranges: Mapping[int, OffsetRange], max_bytes: int) -> Mapping[int, LogChunk]:
        limits.append(max_bytes)
        return read(topic, ranges, max_bytes)

    monkeypatch.setattr(history, "read", record_limit)
    for number in range(9):
        history.append(TOPIC, number % 3, number, b"%d..." % number)
    assert values(iterate(history)) == [b"%d..." % number for number in reversed(range(9))]
    assert set(limits) == {5}


@pytest.mark.parametrize("seed", range(20))
def test_every_record_is_returned_once(history: MemoryTopicHistory, seed: int) -> None:
    rng = random.Random(seed)
    expected: set[tuple[int, int]] = set()
    for _ in range(rng.randrange(60)):
        partition = rng.randrange(3)
        if rng.random() < 0.3:
            history.skip(TOPIC, partition, rng.randrange(6))
            continue
        history.append(TOPIC, partition, rng.randrange(50), b"x")
        expected.add((partition, history.ranges(TOPIC)[partition].end - 1))
    found = list(_in_pages(history, rng))
    assert len(found) == len(expected)
    assert set(found) == expected


def _in_pages(history: MemoryTopicHistory, rng: random.Random) -> Iterator[tuple[int, int]]:
    records = iterate(history)
    while records.peek() is not None:
        for _ in range(rng.randrange(1, 5)):
            if records.peek() is not None:
                record = next(records)
                yield record.partition, record.offset
        records = NewestFirst(history, TOPIC, records.positions(), history.ranges(TOPIC))
