"""The contract of sinks.base.TransactionalProducer."""

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from typing import Protocol, cast

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.producer import LibrdkafkaProducer, TxnOffsetCommitData
from headwater.errors import BrokerUnavailable, NoValidOffset, TransactionFailed
from headwater.model.outputs import OUTPUT_ID_HEADER
from headwater.model.record import RecordBatch
from headwater.native import BytesColumn
from headwater.native.librdkafka import PartitionOffset
from headwater.sinks.base import TransactionalProducer
from headwater.sinks.kafka import KafkaSink
from headwater.sinks.outputs import OutputBatch
from headwater.sinks.transactional_producer import TransactionalKafkaProducer
from headwater.sources.base import Source
from headwater.sources.kafka import KafkaSource
from tests.support.columns import numbers
from tests.support.kafka import KafkaServer
from tests.support.memory.sinks import MemoryTopics, MemoryTransactionalProducer
from tests.support.memory.source import MemoryGroup, MemorySource, MemoryTopic
from tests.support.sources import joined

STAMP = 1_700_000_000_000
BEGIN_S = 30.0


class Bench(Protocol):
    """A source topic with two partitions, a group, and an output topic with two partitions.

    The committed offsets of the group are 0.
    """

    topic: str

    @property
    def rejecting_topic(self) -> str:
        """Return a topic that rejects records of 8,000 random bytes."""

    def producer(self) -> TransactionalProducer:
        """Return a new producer with the shared transactional id.

        It is closed at the end of the test.
        """

    def source(self) -> Source:
        """Return a new member that replaces the group's previous member.

        It is closed at the end of the test.
        """

    def values(self) -> list[bytes | None]:
        """Return the committed records by partition."""

    def positions(self) -> dict[int, int]:
        """Return the group's committed offsets."""

    def recreate_stream(self) -> None:
        """Delete the source topic, and create it again with the same name."""


class MemoryBench:
    topic, rejecting_topic = "out", "no-such-topic"

    def __init__(self) -> None:
        self._topics = MemoryTopics([self.topic])
        self._group = MemoryGroup(MemoryTopic("stream", [[], []]), {0: 0, 1: 0})

    def producer(self) -> TransactionalProducer:
        return MemoryTransactionalProducer(self._topics, "tx", [self.topic])

    def source(self) -> Source:
        for member in [*self._group.members]:
            self._group.remove(member)
        return MemorySource(self._group, lambda seconds: None)

    def values(self) -> list[bytes | None]:
        return [record.value for record in sorted(self._topics.records[self.topic], key=lambda r: r.partition)]

    def positions(self) -> dict[int, int]:
        return self._group.committed

    def recreate_stream(self) -> None:
        self._group.recreate_topic()


class KafkaBench:
    def __init__(self, kafka: KafkaServer) -> None:
        self.kafka = kafka
        self._cleanup = contextlib.ExitStack()
        self.topic = kafka.create_topic(kafka.unique("out"), 2, {"max.message.bytes": "1048588"})
        self.stream = kafka.create_topic(kafka.unique("stream"), 2)
        self.group = kafka.unique("group")
        self.id = kafka.unique("tx")
        kafka.commit(self.group, self.stream, {0: 0, 1: 0})

    @property
    def rejecting_topic(self) -> str:
        return self.kafka.create_topic(self.kafka.unique("small"), 1, {"max.message.bytes": "3000"})

    def producer(self) -> TransactionalKafkaProducer:
        producer = TransactionalKafkaProducer(
            self.kafka.access, [self.topic], source_topic=self.stream, transactional_id=self.id
        )
        self._cleanup.callback(producer.close)
        return producer

    def source(self) -> KafkaSource:
        source = KafkaSource(self.kafka.access, self.stream, self.group, instance_id="slot-0")
        self._cleanup.callback(source.close)
        return source

    def values(self) -> list[bytes | None]:
        return [message.value() for message in self.kafka.read_all(self.topic)]

    def positions(self) -> dict[int, int]:
        with self.kafka.consumer(group=self.group) as consumer:
            found = consumer.committed([TopicPartition(self.stream, p) for p in range(2)], 30)
        return {p.partition: p.offset for p in found}

    def recreate_stream(self) -> None:
        self.kafka.recreate_topic(self.stream, 2)

    def left_open(self, source: Source) -> LibrdkafkaProducer:
        """Start a transaction with records and offsets, and kill its process."""
        settings = producer_settings(self.kafka.access, ClientErrors(self.kafka.access), 0)
        settings["delivery.timeout.ms"] = 10_000
        client = LibrdkafkaProducer(settings | {"transactional.id": self.id, "transaction.timeout.ms": 600_000})
        self._cleanup.callback(client.close)
        client.init_transactions(BEGIN_S)
        client.begin_transaction()
        columns = BytesColumn.of([b"never seen"]), BytesColumn.of([None]), numbers([0]), numbers([0])
        assert client.new_batch(self.topic, *columns)[1].enqueue()
        client.send_offsets(
            self.stream,
            [PartitionOffset(0, 9)],
            cast("TxnOffsetCommitData", source.group_metadata()).group_metadata,
            BEGIN_S,
        )
        assert client.flush(BEGIN_S) == 0
        return client

    def close(self) -> None:
        self._cleanup.close()


@pytest.fixture(params=["memory", "kafka"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "memory":
        yield MemoryBench()
    else:
        with contextlib.closing(KafkaBench(request.getfixturevalue("kafka"))) as kafka_bench:
            yield kafka_bench


@pytest.fixture
def kafka_bench(kafka: KafkaServer) -> Iterator[KafkaBench]:
    with contextlib.closing(KafkaBench(kafka)) as kafka_bench:
        yield kafka_bench


def member(bench: Bench) -> Source:
    """Return a member of the group with all partitions."""
    source = bench.source()
    assert joined(source).owned == {0, 1}
    return source


def begun(bench: Bench) -> TransactionalProducer:
    producer = bench.producer()
    producer.connect(BEGIN_S)
    producer.init_transactions(BEGIN_S)
    return producer


def write(producer: TransactionalProducer, topic: str, *values: bytes, partition: int = 0) -> None:
    for value in values:
        headers = [(OUTPUT_ID_HEADER, b"stream/%d/0/0" % partition)]
        producer.produce(OutputBatch.of(topic, [value], [b"k"], [partition], [STAMP], headers=headers))


class TestCommit:
    def test_records_and_offsets_are_committed_together(self, bench: Bench) -> None:
        source, producer = member(bench), begun(bench)
        write(producer, bench.topic, b"a", b"b")
        write(producer, bench.topic, b"c", partition=1)
        assert (bench.values(), bench.positions()) == ([], {0: 0, 1: 0})
        producer.commit({0: 5, 1: 3}, source.group_metadata)
        assert (bench.values(), bench.positions()) == ([b"a", b"b", b"c"], {0: 5, 1: 3})
        assert source.committed() == {0: 5, 1: 3}

    def test_one_after_the_other(self, bench: Bench) -> None:
        source, producer = member(bench), begun(bench)
        for number in range(20):
            write(producer, bench.topic, b"%02d" % number)
            producer.commit({0: number + 1}, source.group_metadata)
        assert bench.values() == [b"%02d" % n for n in range(20)]
        assert bench.positions() == {0: 20, 1: 0}

    def test_positions_alone(self, bench: Bench) -> None:
        source, producer = member(bench), begun(bench)
        producer.commit({1: 7}, source.group_metadata)
        assert (bench.values(), bench.positions()) == ([], {0: 0, 1: 7})

    def test_positions_know_their_topic(self, bench: Bench) -> None:
        source, producer = member(bench), begun(bench)
        bench.recreate_stream()
        producer.commit({0: 1}, source.group_metadata)
        with pytest.raises(NoValidOffset, match="created again"):
            joined(bench.source())

    def test_the_largest_transaction(self, bench: Bench) -> None:
        source, producer = member(bench), begun(bench)
        write(producer, bench.topic, *(b"%05d" % n for n in range(20_000)))
        producer.commit({0: 1}, source.group_metadata)
        assert bench.values() == [b"%05d" % n for n in range(20_000)]

    def test_forgotten_partitions_are_not_written(self, bench: Bench) -> None:
        source, producer = member(bench), begun(bench)
        write(producer, bench.topic, b"a")
        write(producer, bench.topic, b"b", partition=1)
        producer.drop_source_partitions([0])
        producer.commit({1: 1}, source.group_metadata)
        assert (bench.values(), bench.positions()) == ([b"b"], {0: 0, 1: 1})

    def test_a_forgotten_source_partition_is_not_written_to_a_topic_with_fewer_partitions(self, bench: Bench) -> None:
        """Both source partitions map to the topic's partition 0.

        Only the records of one source partition are forgotten.
        """
        source, producer = member(bench), begun(bench)
        sink = KafkaSink("out", bench.topic, partitions=1)
        now_ms = time.time_ns() // 1_000_000
        sink.send(RecordBatch.of("stream", [b"a", b"b"], [None, None], [now_ms] * 2, [0, 1], [0, 0], [0, 0]), producer)
        producer.drop_source_partitions([0])
        assert producer.pending_records() == 1
        producer.commit({1: 1}, source.group_metadata)
        assert (bench.values(), bench.positions()) == ([b"b"], {0: 0, 1: 1})


class TestFailures:
    def test_a_rejected_record_aborts_the_transaction(self, bench: Bench) -> None:
        source, producer = member(bench), begun(bench)
        write(producer, bench.topic, b"a")
        write(producer, bench.rejecting_topic, random.randbytes(8000))
        with pytest.raises(TransactionFailed, match=r"transaction|topic"):
            producer.commit({0: 1}, source.group_metadata)
        producer.close()
        successor = begun(bench)
        assert source.committed() == {0: 0, 1: 0}
        write(successor, bench.topic, b"b")
        successor.commit({0: 1}, source.group_metadata)
        assert (bench.values(), bench.positions()) == ([b"b"], {0: 1, 1: 0})

    def test_a_record_for_a_missing_partition_aborts_the_transaction(self, kafka_bench: KafkaBench) -> None:
        """librdkafka rejects the record immediately, and would commit all others."""
        source, producer = member(kafka_bench), begun(kafka_bench)
        write(producer, kafka_bench.topic, b"a")
        write(producer, kafka_bench.topic, b"b", partition=9)
        with pytest.raises(TransactionFailed, match="transaction"):
            producer.commit({0: 2}, source.group_metadata)
        assert ["artition" in failure.reason for failure in producer.take_failures()] == [True]
        producer.close()
        begun(kafka_bench)
        assert (kafka_bench.values(), kafka_bench.positions()) == ([], {0: 0, 1: 0})

    def test_a_successor_fences_its_predecessor(self, bench: Bench) -> None:
        source, old = member(bench), begun(bench)
        write(old, bench.topic, b"a")
        old.commit({0: 1}, source.group_metadata)
        new = begun(bench)
        write(old, bench.topic, b"b")
        with pytest.raises(TransactionFailed):
            old.commit({0: 2}, source.group_metadata)
        write(new, bench.topic, b"B")
        new.commit({0: 2}, source.group_metadata)
        assert (bench.values(), bench.positions()) == ([b"a", b"B"], {0: 2, 1: 0})

    def test_a_worker_that_lost_its_partitions_commits_nothing(self, bench: Bench) -> None:
        """Another member has replaced the worker, which does not know it yet."""
        old, producer = member(bench), begun(bench)
        member(bench)
        write(producer, bench.topic, b"a")
        with pytest.raises(TransactionFailed):
            producer.commit({0: 1}, old.group_metadata)
        producer.close()
        begun(bench)
        assert (bench.values(), bench.positions()) == ([], {0: 0, 1: 0})

    def test_connect_names_a_missing_topic(self, kafka: KafkaServer) -> None:
        with pytest.raises(BrokerUnavailable):
            TransactionalKafkaProducer(
                kafka.access, ["no-such-topic"], source_topic="stream", transactional_id="tx-missing"
            ).connect(30)
        with pytest.raises(BrokerUnavailable, match="no-such-topic"):
            MemoryTransactionalProducer(MemoryTopics([]), "tx", ["no-such-topic"]).connect(30)


class TestKafkaAlone:
    def test_a_successor_aborts_the_open_transaction_of_a_killed_worker(self, kafka_bench: KafkaBench) -> None:
        """Neither consumers nor the next member wait for the transaction timeout.

        It is ten minutes here.
        """
        source = member(kafka_bench)
        zombie = kafka_bench.left_open(source)
        producer = begun(kafka_bench)
        assert source.committed() == {0: 0, 1: 0}
        write(producer, kafka_bench.topic, b"seen")
        producer.commit({0: 1}, source.group_metadata)
        assert kafka_bench.values() == [b"seen"]
        with pytest.raises(confluent_kafka.KafkaException):
            zombie.commit_transaction(BEGIN_S)
        assert (kafka_bench.values(), kafka_bench.positions()) == ([b"seen"], {0: 1, 1: 0})

    def test_the_next_member_waits_for_the_end_of_an_open_transaction(self, kafka_bench: KafkaBench) -> None:
        """A worker of another slot waits, because it cannot abort the transaction.

        A partition may move to such a worker.
        """
        source = member(kafka_bench)
        client = kafka_bench.left_open(source)
        end = threading.Timer(0.5, client.commit_transaction, (BEGIN_S,))
        end.start()
        assert source.committed() == {0: 9, 1: 0}
        end.join()

    def test_a_wrong_password(self, kafka: KafkaServer, kafka_bench: KafkaBench) -> None:
        access = kafka.access.model_copy(update={"password": "wrong"})
        producer = TransactionalKafkaProducer(
            access, [kafka_bench.topic], source_topic=kafka_bench.stream, transactional_id="tx-wrong"
        )
        with pytest.raises(BrokerUnavailable, match="rejects the user"):
            producer.init_transactions(2)
        producer.close()
