"""The history of a topic: in memory, and of a real Kafka."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Protocol

import pytest
from confluent_kafka import Producer

from headwater.brokers import kafka_topic_history
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.kafka_topic_history import KafkaTopicHistory
from headwater.brokers.topic_history import LogChunk, OffsetRange, TopicHistory
from headwater.errors import BrokerUnavailable
from tests.support.kafka import WAIT_S, KafkaServer
from tests.support.memory.topic_history import MemoryTopicHistory

MANY = 1 << 20
TIME_MS = 1_767_323_045_678


class Log(Protocol):
    """A topic with three partitions, to which a test writes."""

    @property
    def history(self) -> TopicHistory: ...
    @property
    def topic(self) -> str: ...
    def write(self, values: Sequence[bytes | None], partition: int = 0) -> None: ...
    def truncate(self, before: int, partition: int = 0) -> None: ...


class MemoryLog:
    """A topic in memory."""

    def __init__(self) -> None:
        self.history = MemoryTopicHistory()
        self.topic = "letters"
        self.history.create(self.topic, 3)

    def write(self, values: Sequence[bytes | None], partition: int = 0) -> None:
        for value in values:
            self.history.append(self.topic, partition, TIME_MS, value, {"a": b"1", "b": None}, b"k")

    def truncate(self, before: int, partition: int = 0) -> None:
        self.history.truncate(self.topic, partition, before)


class KafkaLog:
    """A topic of a real Kafka."""

    def __init__(self, kafka: KafkaServer, history: KafkaTopicHistory) -> None:
        self.history = history
        self.kafka = kafka
        self.topic = kafka.create_topic(kafka.unique("letters"), 3)
        self._producer = Producer(producer_settings(kafka.access, ClientErrors(kafka.access), 0))

    def write(self, values: Sequence[bytes | None], partition: int = 0) -> None:
        for value in values:
            headers: list[tuple[str, str | bytes | None]] = [("a", b"0"), ("a", b"1"), ("b", None)]
            self._producer.produce(self.topic, value, b"k", partition, timestamp=TIME_MS, headers=headers)
        assert self._producer.flush(WAIT_S) == 0

    def truncate(self, before: int, partition: int = 0) -> None:
        self.kafka.truncate(self.topic, partition, before)


@pytest.fixture
def kafka_history(kafka: KafkaServer) -> Iterator[KafkaTopicHistory]:
    history = KafkaTopicHistory(kafka.access)
    yield history
    history.close()


@pytest.fixture(params=["memory", "kafka"])
def log(request: pytest.FixtureRequest) -> Log:
    if request.param == "memory":
        return MemoryLog()
    kafka: KafkaServer = request.getfixturevalue("kafka")
    history: KafkaTopicHistory = request.getfixturevalue("kafka_history")
    return KafkaLog(kafka, history)


def values(chunks: Mapping[int, LogChunk]) -> dict[int, list[bytes | None]]:
    return {partition: [record.value for record in chunk.records] for partition, chunk in chunks.items()}


def test_ranges(log: Log) -> None:
    log.write([b"1", b"2"], partition=2)
    assert log.history.ranges(log.topic) == {0: OffsetRange(0, 0), 1: OffsetRange(0, 0), 2: OffsetRange(0, 2)}
    log.truncate(1, partition=2)
    assert log.history.ranges(log.topic)[2] == OffsetRange(1, 2)


def test_a_topic_that_does_not_exist(log: Log) -> None:
    assert log.history.ranges(log.topic + ".none") == {}


def test_offsets_since_a_time(log: Log) -> None:
    log.write([b"1", b"2"], partition=2)
    assert log.history.offsets_since(log.topic, TIME_MS) == {2: 0}
    assert log.history.offsets_since(log.topic, 0) == {2: 0}
    assert log.history.offsets_since(log.topic, TIME_MS + 1) == {}
    assert log.history.offsets_since(log.topic + ".none", 0) == {}


def test_a_record(log: Log) -> None:
    log.write([b"1", None])
    (record, tombstone) = log.history.read(log.topic, {0: OffsetRange(0, 2)}, MANY)[0].records
    assert record == (0, 0, TIME_MS, b"k", b"1", {"a": b"1", "b": None})
    assert tombstone.value is None


def test_a_part_of_a_partition(log: Log) -> None:
    log.write([b"%d" % number for number in range(100)])
    log.write([b"x"], partition=1)
    read = log.history.read(log.topic, {0: OffsetRange(40, 43), 1: OffsetRange(0, 1), 2: OffsetRange(0, 0)}, MANY)
    assert values(read) == {0: [b"40", b"41", b"42"], 1: [b"x"]}
    assert (read[0].start, read[1].start) == (40, 0)


def test_reads_in_a_row(log: Log) -> None:
    log.write([b"%d" % number for number in range(1_000)])
    for start in (990, 0, 500, 3):
        read = log.history.read(log.topic, {0: OffsetRange(start, start + 2)}, MANY)
        assert values(read) == {0: [b"%d" % start, b"%d" % (start + 1)]}


def test_reads_of_several_partitions_in_a_row(log: Log) -> None:
    for partition in range(3):
        log.write([b"%d" % number for number in range(300)], partition)
    for start in (0, 100, 200, 100, 0):
        ranges = {partition: OffsetRange(start + partition, start + partition + 2) for partition in range(3)}
        read = values(log.history.read(log.topic, ranges, MANY))
        assert read == {
            partition: [b"%d" % (start + partition), b"%d" % (start + partition + 1)] for partition in range(3)
        }


def test_the_newest_of_large_records(log: Log) -> None:
    log.write([b"a" * 100, b"b" * 100, b"c" * 100, b"d" * 1000])
    chunk = log.history.read(log.topic, {0: OffsetRange(0, 3)}, 250)[0]
    assert (chunk.start, [record.offset for record in chunk.records]) == (1, [1, 2])
    chunk = log.history.read(log.topic, {0: OffsetRange(0, 4)}, 250)[0]
    assert (chunk.start, [record.offset for record in chunk.records]) == (3, [3])


def test_records_that_were_removed(log: Log) -> None:
    log.write([b"%d" % number for number in range(10)])
    log.truncate(6)
    assert values(log.history.read(log.topic, {0: OffsetRange(2, 8)}, MANY)) == {0: [b"6", b"7"]}
    assert values(log.history.read(log.topic, {0: OffsetRange(2, 5)}, MANY)) == {0: []}


class TestTransactions:
    """Only committed records are returned, and control records leave gaps."""

    @pytest.fixture
    def log(self, kafka: KafkaServer, kafka_history: KafkaTopicHistory) -> KafkaLog:
        return KafkaLog(kafka, kafka_history)

    @pytest.fixture
    def producer(self, kafka: KafkaServer) -> Producer:
        settings = producer_settings(kafka.access, ClientErrors(kafka.access), 0)
        more = {"transactional.id": kafka.unique("history"), "delivery.timeout.ms": 10_000}
        producer = Producer(settings | more)
        producer.init_transactions(WAIT_S)
        return producer

    def test_control_and_aborted_records(self, log: KafkaLog, producer: Producer) -> None:
        for is_committed in (True, False, False):
            producer.begin_transaction()
            producer.produce(log.topic, b"committed" if is_committed else b"aborted", partition=0)
            if is_committed:
                producer.commit_transaction(WAIT_S)
            else:
                producer.flush(WAIT_S)
                producer.abort_transaction(WAIT_S)
        deadline = time.monotonic() + WAIT_S
        while log.history.ranges(log.topic)[0].end < 6:  # the markers are written after the response
            assert time.monotonic() < deadline
        assert values(log.history.read(log.topic, {0: OffsetRange(0, 6)}, MANY)) == {0: [b"committed"]}
        assert values(log.history.read(log.topic, {0: OffsetRange(1, 6)}, MANY)) == {0: []}
        log.write([b"last"])
        assert values(log.history.read(log.topic, {0: OffsetRange(1, 7)}, MANY)) == {0: [b"last"]}
        assert values(log.history.read(log.topic, {0: OffsetRange(1, 4)}, MANY)) == {0: []}

    def test_an_open_transaction(self, log: KafkaLog, producer: Producer) -> None:
        log.write([b"before"])
        producer.begin_transaction()
        producer.produce(log.topic, b"open", partition=0)
        producer.flush(WAIT_S)
        log.write([b"after"])
        assert log.history.ranges(log.topic)[0] == OffsetRange(0, 1)
        producer.abort_transaction(WAIT_S)


def test_kafka_is_away(kafka: KafkaServer) -> None:
    access = kafka.access.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(BrokerUnavailable):
        KafkaTopicHistory(access).ranges("any")


def test_a_login_that_fails(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topic_history, "REQUEST_TIMEOUT_S", 1.0)
    with (
        closing(KafkaTopicHistory(kafka.user("nobody", "wrong"))) as history,
        pytest.raises(BrokerUnavailable, match="rejects the user nobody: check"),
    ):
        history.ranges("any")
