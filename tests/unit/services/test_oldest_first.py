"""Records of a topic are read from given offsets on."""

import random
from datetime import UTC, datetime
from itertools import islice

import pytest

from headwater.brokers.topic_history import LogRecord, OffsetRange
from headwater.services import newest_first, oldest_first
from headwater.services.oldest_first import OldestFirst, records_since
from tests.support.memory.topic_history import MemoryTopicHistory

TOPIC = "stream.base.log"


@pytest.fixture
def history() -> MemoryTopicHistory:
    history = MemoryTopicHistory()
    history.create(TOPIC, 3)
    return history


def read(history: MemoryTopicHistory, starts: dict[int, int] | None = None, chunk: int = 2) -> list[LogRecord]:
    ranges = history.ranges(TOPIC)
    unread = {n: OffsetRange((starts or {}).get(n, each.start), each.end) for n, each in ranges.items()}
    return list(OldestFirst(history, TOPIC, unread, chunk))


def values(records: list[LogRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_no_records(history: MemoryTopicHistory) -> None:
    assert read(history) == []


def test_partitions_are_merged_by_timestamp(history: MemoryTopicHistory) -> None:
    for time, partition in enumerate([0, 1, 0, 2, 0, 0, 1, 0, 0, 0]):
        history.append(TOPIC, partition, 1_000 + time, b"%d" % time)
    assert values(read(history)) == [b"%d" % time for time in range(10)]


def test_a_partition_is_in_the_order_of_its_offsets(history: MemoryTopicHistory) -> None:
    for time in (3, 9, 1):
        history.append(TOPIC, 0, time, b"%d" % time)
    assert values(read(history)) == [b"3", b"9", b"1"]


def test_offsets_without_records_are_skipped(history: MemoryTopicHistory) -> None:
    history.append(TOPIC, 0, 1, b"first")
    history.skip(TOPIC, 0, 10_000)
    history.append(TOPIC, 0, 2, b"last")
    assert values(read(history)) == [b"first", b"last"]
    assert values(read(history, {0: 1})) == [b"last"]


@pytest.mark.parametrize("seed", range(5))
def test_large_records_are_read_in_small_parts(
    history: MemoryTopicHistory, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(newest_first, "MAX_CHUNK_BYTES", 1_000)
    draw = random.Random(seed)
    for time in range(200):
        history.append(TOPIC, draw.randrange(3), time, b"%3d" % time + b"." * draw.choice([0, 10, 300, 2_000]))
    assert [int((value or b"")[:3]) for value in values(read(history, chunk=64))] == list(range(200))


def test_only_what_is_needed_is_read(history: MemoryTopicHistory) -> None:
    for time in range(10_000):
        history.append(TOPIC, 0, time, b"x")
    assert len(list(islice(OldestFirst(history, TOPIC, history.ranges(TOPIC), 16), 10))) == 10
    assert history.records_read == 16


def test_older_records_are_looked_through_to_a_limit(
    history: MemoryTopicHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oldest_first, "MAX_SCANNED", 100)
    for number in range(1_000):
        history.append(TOPIC, 0, 0 if number % 30 else 1_000, b"%d" % number)
    since = datetime.fromtimestamp(1, UTC)
    assert values(list(records_since(history, TOPIC, history.ranges(TOPIC), since, 16))) == [b"0", b"30", b"60", b"90"]
    assert history.records_read < 1_000
