"""The loop of an ingest stores steps with their position, and waits during outages."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.backoff import Backoff
from headwater.errors import NodeUnavailable, TransactionFailed
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.runner import IngestMetrics, run
from headwater.ingest.writer import POSITIONS_TOPIC, StreamTopic, StreamWriter, transactional_id
from tests.support.memory.sinks import MemoryTopics, MemoryTransactionalProducer

TARGETS = {"log": StreamTopic("stream.base.log", 4)}


class Kafka:
    """Topics in memory, and the reader and writer that `run` opens."""

    def __init__(self) -> None:
        self.topics = MemoryTopics(["stream.base.log", POSITIONS_TOPIC])

    @property
    def position(self) -> bytes | None:
        stored = self.topics.records[POSITIONS_TOPIC]
        return stored[-1].value if stored else None

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.topics.records["stream.base.log"]]

    @contextmanager
    def open(self) -> Iterator[tuple[StreamWriter, bytes | None]]:
        producer = MemoryTransactionalProducer(self.topics, transactional_id("n"))
        producer.init_transactions(1)
        yield StreamWriter(producer, TARGETS, "n"), self.position


class Blocks:
    """A reader of numbered blocks with two records each.

    `faults` says after how many steps each call fails.
    """

    streams = ("log",)

    def __init__(self, count: int, faults: dict[int, tuple[int, Exception]] | None = None) -> None:
        self._count = count
        self._faults = faults or {}
        self.calls: list[bytes | None] = []
        self.is_closed = False

    def steps(self, position: bytes | None) -> Iterator[Step | None]:
        after, error = self._faults.get(len(self.calls), (-1, None))
        self.calls.append(position)
        for done, number in enumerate(range(int(position or -1) + 1, self._count)):
            if done == after and error is not None:
                raise error
            yield None
            yield block(number)

    def close(self) -> None:
        self.is_closed = True


def block(number: int) -> Step:
    records = [StreamRecord("log", b"%d:%d" % (number, n), b"%d.%d" % (number, n)) for n in range(2)]
    return Step(records, b"%d" % number, number * 1000)


def all_of(count: int) -> list[bytes]:
    return [record.value for number in range(count) for record in block(number).records]


def quickly() -> Backoff:
    return Backoff(0.001, 0.001)


def test_steps_are_stored_with_their_position() -> None:
    kafka, reader, metrics = Kafka(), Blocks(3), IngestMetrics()
    run(reader, kafka.open, threading.Event(), metrics)
    assert kafka.values == all_of(3)
    assert kafka.position == b"2"
    assert (metrics.records, metrics.errors, metrics.time_ms) == ({"log": 6}, 0, 2000)
    assert reader.is_closed


def test_the_summary_has_counts_that_are_not_zero() -> None:
    assert IngestMetrics().summary() == "records: none"
    metrics = IngestMetrics(records=Counter(trade=1, fill=2))
    assert metrics.summary() == "records: 2 fill, 1 trade"
    metrics.counts.update(blocks=3, retries=4)
    assert metrics.summary() == (
        "records: 2 fill, 1 trade; 3 blocks; 0 logs that were not decoded; 0 token transfers with invalid data"
    )


def test_the_loop_continues_after_the_position() -> None:
    kafka = Kafka()
    run(Blocks(2), kafka.open, threading.Event(), IngestMetrics())
    run(Blocks(5), kafka.open, threading.Event(), IngestMetrics())
    assert kafka.values == all_of(5)


@pytest.mark.parametrize("error", [NodeUnavailable("The node is away."), TransactionFailed("Kafka did not take it.")])
def test_failures_are_waited_out(error: Exception) -> None:
    kafka, metrics = Kafka(), IngestMetrics()
    reader = Blocks(4, {0: (0, error), 1: (2, error)})
    run(reader, kafka.open, threading.Event(), metrics, quickly())
    assert kafka.values == all_of(4)
    assert reader.calls == [None, None, b"1"]
    assert metrics.errors == 2


def test_a_successor_fences_the_first_ingest() -> None:
    kafka = Kafka()
    with kafka.open() as (first, _), kafka.open() as (second, _):
        second.write(block(0))
        with pytest.raises(TransactionFailed):
            first.write(block(0))
    assert kafka.values == all_of(1)


def test_the_loop_stops_between_steps() -> None:
    kafka, stop = Kafka(), threading.Event()

    class Stopping(Blocks):
        def steps(self, position: bytes | None) -> Iterator[Step | None]:
            for step in super().steps(position):
                yield step
                if step is not None:
                    stop.set()

    run(Stopping(9), kafka.open, stop, IngestMetrics())
    assert kafka.values == all_of(1)


def test_too_large_records_are_skipped_and_counted() -> None:
    kafka, metrics = Kafka(), IngestMetrics()

    class Large(Blocks):
        def steps(self, position: bytes | None) -> Iterator[Step | None]:
            yield Step([StreamRecord("log", b"k", b"x" * 2_000_000), *block(0).records], b"0", 1)

    run(Large(1), kafka.open, threading.Event(), metrics)
    assert kafka.values == all_of(1)
    assert (metrics.left_out, metrics.records) == (1, {"log": 2})
