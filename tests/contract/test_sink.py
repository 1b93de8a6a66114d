"""The contract of sinks.base.Producer, and the Kafka sink with each producer."""

import contextlib
import random
import time
from collections.abc import Iterator
from typing import Protocol, cast

import pytest

from headwater.errors import BrokerUnavailable
from headwater.model.outputs import MAX_RECORD_BYTES
from headwater.model.record import Headers, RecordBatch
from headwater.sinks.base import Producer, ProducerFailure
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer
from headwater.sinks.kafka import KafkaSink
from headwater.sinks.outputs import OutputBatch
from tests.support.kafka import KafkaServer
from tests.support.memory.sinks import MemoryProducer, MemoryTopics

FLUSHES = 600  # other tests may use both cores
STAMP = 1_700_000_000_000


class Bench(Protocol):
    """A broker with one topic of two partitions."""

    topic: str

    @property
    def rejecting_topic(self) -> str:
        """Return a topic that rejects records of 8,000 random bytes."""

    def producer(self) -> Producer:
        """Return a new producer, which is closed at the end of the test."""

    def records(self, count: int) -> list[tuple[int, bytes | None, bytes | None, int, Headers]]:
        """Return partition, value, key, timestamp and headers of all records.

        They are sorted by partition, and in order.
        """


class MemoryBench:
    topic = "out"
    rejecting_topic = "no-such-topic"

    def __init__(self) -> None:
        self._topics = MemoryTopics([self.topic])

    def producer(self) -> Producer:
        return MemoryProducer(self._topics, [self.topic])

    def records(self, count: int) -> list[tuple[int, bytes | None, bytes | None, int, Headers]]:
        found = [(r.partition, r.value, r.key, r.timestamp_ms, r.headers) for r in self._topics.records[self.topic]]
        assert len(found) == count
        return sorted(found, key=lambda record: record[0])


class KafkaBench:
    def __init__(self, kafka: KafkaServer) -> None:
        self._kafka = kafka
        self._cleanup = contextlib.ExitStack()
        self.topic = kafka.create_topic(kafka.unique("out"), 2, {"max.message.bytes": "1048588"})

    @property
    def rejecting_topic(self) -> str:
        return self._kafka.create_topic(self._kafka.unique("small"), 1, {"max.message.bytes": "3000"})

    def producer(self) -> IdempotentKafkaProducer:
        producer = IdempotentKafkaProducer(self._kafka.access, [self.topic])
        self._cleanup.callback(producer.close)
        return producer

    def records(self, count: int) -> list[tuple[int, bytes | None, bytes | None, int, Headers]]:
        return [
            (cast("int", m.partition()), m.value(), m.key(), m.timestamp()[1], cast("Headers", m.headers() or []))
            for m in self._kafka.consume(self.topic, count)
        ]

    def close(self) -> None:
        self._cleanup.close()


@pytest.fixture(params=["memory", "kafka"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "memory":
        yield MemoryBench()
    else:
        with contextlib.closing(KafkaBench(request.getfixturevalue("kafka"))) as kafka_bench:
            yield kafka_bench


def one(topic: str, value: bytes | None, key: bytes | None, partition: int, headers: Headers) -> OutputBatch:
    return OutputBatch.of(topic, [value], [key], [partition], [STAMP], headers=headers)


def flush(producer: Producer) -> list[ProducerFailure]:
    """Wait until all records are acknowledged, or one was rejected.

    After a failure, no more records are acknowledged.
    """
    for _ in range(FLUSHES):
        left, failures = producer.flush(0.1), producer.take_failures()
        if failures:
            return failures
        if left == 0:
            return []
    raise AssertionError("records without a report")


class TestProducer:
    def test_a_record_keeps_all_of_its_fields(self, bench: Bench) -> None:
        producer = bench.producer()
        producer.connect(30)
        producer.produce(one(bench.topic, b"v", b"k", 1, [("h", b"1"), ("i", b"2")]))
        producer.produce(one(bench.topic, None, None, 0, []))
        assert flush(producer) == []
        assert bench.records(2) == [(0, None, None, STAMP, []), (1, b"v", b"k", STAMP, [("h", b"1"), ("i", b"2")])]

    def test_order_per_partition(self, bench: Bench) -> None:
        producer = bench.producer()
        for number in range(2000):
            producer.produce(one(bench.topic, b"%d" % number, None, number % 2, []))
        assert flush(producer) == []
        values = [record[1] for record in bench.records(2000)]
        assert values == [b"%d" % n for n in (*range(0, 2000, 2), *range(1, 2000, 2))]

    def test_records_that_come_singly(self, bench: Bench) -> None:
        producer, before_ms = bench.producer(), int(time.time() * 1000)
        for number in range(0, 3000, 3):
            producer.append(bench.topic, b"%d" % number, b"k", 1)
            producer.produce(one(bench.topic, b"%d" % (number + 1), None, 1, []))
            producer.append(bench.topic, b"%d" % (number + 2) + b"x" * (number * 10), None, 1)
        assert flush(producer) == []
        records = bench.records(3000)
        assert [int((record[1] or b"").rstrip(b"x")) for record in records] == [*range(3000)]
        assert records[0][2] == b"k"
        assert isinstance(producer, MemoryProducer) or before_ms <= records[0][3] <= time.time() * 1000

    def test_produce_never_waits(self, bench: Bench) -> None:
        """Records beyond the queue's limit stay in memory until there is room."""
        producer = bench.producer()
        for number in range(103_000):
            producer.produce(one(bench.topic, b"%d" % number, None, 0, []))
        assert producer.is_queue_full()
        assert flush(producer) == []
        assert not producer.is_queue_full()
        assert [record[1] for record in bench.records(103_000)] == [b"%d" % n for n in range(103_000)]

    def test_how_many_are_outstanding(self, bench: Bench) -> None:
        producer = bench.producer()
        producer.connect(30)
        for number in range(100):
            producer.produce(one(bench.topic, b"%d" % number, None, 0, []))
        seen = [producer.outstanding()]
        assert flush(producer) == []
        assert 0 < seen[0] <= 100
        assert producer.outstanding() == 0

    def test_a_rejected_record_is_reported(self, bench: Bench) -> None:
        producer, topic = bench.producer(), bench.rejecting_topic
        producer.produce(one(topic, random.randbytes(8000), None, 0, []))
        assert topic in " ".join(failure.reason for failure in flush(producer))
        assert producer.take_failures() == []

    def test_closing_with_records_queued(self, bench: Bench) -> None:
        producer = bench.producer()
        for _ in range(1000):
            producer.produce(one(bench.topic, b"v", None, 0, []))
        producer.close()

    def test_connect_names_a_missing_topic(self, kafka: KafkaServer) -> None:
        producer = IdempotentKafkaProducer(kafka.access, ["no-such-topic"])
        with pytest.raises(BrokerUnavailable):
            producer.connect(30)
        with pytest.raises(BrokerUnavailable, match="no-such-topic"):
            MemoryProducer(MemoryTopics([]), ["no-such-topic"]).connect(30)

    def test_connect_with_a_wrong_password(self, kafka: KafkaServer) -> None:
        producer = IdempotentKafkaProducer(kafka.access.model_copy(update={"password": "wrong"}), ["any"])
        with pytest.raises(BrokerUnavailable, match="rejects the user"):
            producer.connect(2)

    def test_no_record_is_written_after_a_rejected_one(self, kafka: KafkaServer) -> None:
        """So reading all of them again keeps the order."""
        topic = kafka.create_topic(kafka.unique("small"), 1, {"max.message.bytes": "3000"})
        producer = IdempotentKafkaProducer(kafka.access, [topic])
        for number in range(300):
            producer.produce(one(topic, random.randbytes(8000) if number == 150 else b"%d" % number, None, 0, []))
            producer.flush(0 if number % 10 else 0.1)
        assert flush(producer)
        producer.close()
        arrived = kafka.end_offsets(topic)[0]
        assert [int(m.value() or b"") for m in kafka.consume(topic, arrived)] == list(range(arrived))
        assert arrived <= 150


def batch(values: list[bytes | None], keys: list[bytes | None]) -> RecordBatch:
    rows = range(len(values))
    return RecordBatch.of("stream", values, keys, [STAMP] * len(values), [1] * len(values), [*rows], [0] * len(values))


class TestKafkaSink:
    def test_the_header_has_the_origin(self, bench: Bench) -> None:
        producer = bench.producer()
        sink = KafkaSink("mine", bench.topic)
        now_ms = time.time_ns() // 1_000_000
        records = RecordBatch.of("stream", [b"v", b"w"], [b"k", None], [now_ms - 9, now_ms], [1, 0], [7, 9], [0, 3])
        assert sink.send(records, producer) == []
        assert flush(producer) == []
        assert bench.records(2) == [
            (0, b"w", None, now_ms, [("headwater-src", b"stream/0/9/3")]),
            (1, b"v", b"k", now_ms - 9, [("headwater-src", b"stream/1/7/0")]),
        ]

    def test_fewer_partitions_than_the_source_has(self, bench: Bench) -> None:
        """Partition p maps to p modulo the number of partitions; the header has p."""
        producer, now_ms = bench.producer(), time.time_ns() // 1_000_000
        sink = KafkaSink("mine", bench.topic, partitions=2)
        values = [b"%d" % number for number in range(6)]
        records = RecordBatch.of("stream", values, [None] * 6, [now_ms] * 6, [0, 0, 1, 2, 3, 5], [*range(6)], [0] * 6)
        assert sink.send(records, producer) == []
        assert flush(producer) == []
        assert [(partition, value, headers) for partition, value, _, _, headers in bench.records(6)] == [
            (0, b"0", [("headwater-src", b"stream/0/0/0")]),
            (0, b"1", [("headwater-src", b"stream/0/1/0")]),
            (0, b"3", [("headwater-src", b"stream/2/3/0")]),
            (1, b"2", [("headwater-src", b"stream/1/2/0")]),
            (1, b"4", [("headwater-src", b"stream/3/4/0")]),
            (1, b"5", [("headwater-src", b"stream/5/5/0")]),
        ]

    def test_a_record_that_is_old_for_its_topic_has_the_time_of_writing(self, bench: Bench) -> None:
        """Otherwise Kafka would delete the record soon after it was written."""
        producer, now_ms = bench.producer(), time.time_ns() // 1_000_000
        sink = KafkaSink("mine", bench.topic, retention_ms=600_000)
        stamps = [now_ms - 400_000, now_ms - 100_000]
        sink.send(RecordBatch.of("stream", [b"a", b"b"], [None] * 2, stamps, [0, 1], [0, 0], [0, 0]), producer)
        assert flush(producer) == []
        [old, young] = [stamp for _, _, _, stamp, _ in bench.records(2)]
        assert now_ms <= old
        assert young == stamps[1]

    def test_records_without_a_key_fail_where_the_topic_is_compacted(self, bench: Bench) -> None:
        producer = bench.producer()
        sink = KafkaSink("mine", bench.topic, is_compacted=True)
        failures = sink.send(batch([b"a", b"b", None, b"x" * 1_000_001], [b"k", None, b"", None]), producer)
        assert [(f.row, f.error, f.component) for f in failures] == [(1, "NoKey", "mine"), (3, "TooLarge", "mine")]
        assert "cleanup_policy" in failures[0].message
        assert flush(producer) == []
        assert [record[1] for record in bench.records(2)] == [b"a", None]

    def test_the_largest_records_pass(self, bench: Bench) -> None:
        producer = bench.producer()
        headers_bytes = len("headwater-src" + "stream/1/0/0")
        key = b"k" * (MAX_RECORD_BYTES - 1_000_000 - headers_bytes)
        assert KafkaSink("mine", bench.topic).send(batch([b"x" * 1_000_000] * 2, [key, None]), producer) == []
        assert flush(producer) == []
        assert [len(record[1] or b"") for record in bench.records(2)] == [1_000_000] * 2

    def test_too_large_records_fail_alone(self, bench: Bench) -> None:
        producer = bench.producer()
        records = batch([b"x" * 1_000_001, b"ok", b"x" * 1_000_000], [None, None, b"k" * 40_001])
        failures = KafkaSink("mine", bench.topic).send(records, producer)
        assert [(f.row, f.error, f.component) for f in failures] == [(0, "TooLarge", "mine"), (2, "TooLarge", "mine")]
        assert "1000001 bytes" in failures[0].message
        assert flush(producer) == []
        assert [record[1] for record in bench.records(1)] == [b"ok"]
