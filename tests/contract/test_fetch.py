"""What is read by Fetch is what librdkafka's reader of committed records gets."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from headwater.brokers.client import ClientErrors, producer_settings
from headwater.brokers.wire.codes import NO_ERROR
from headwater.brokers.wire.connection import Connection
from headwater.brokers.wire.fetch import UNKNOWN_EPOCH, Fetch, Fetched, Wanted
from tests.support.kafka import WAIT_S, KafkaServer
from tests.support.kafka_batches import committed, rows_of

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOW = 1_700_000_000_000
EPOCH = 0
"""Of a leader that nobody has followed yet."""


@pytest.fixture
def connection(kafka: KafkaServer) -> Iterator[Connection]:
    host, _, port = kafka.access.bootstrap_servers.partition(":")
    with contextlib.closing(Connection(kafka.access, host, int(port), WAIT_S)) as connection:
        yield connection


def ask(connection: Connection, topic: str, wanted: Wanted, max_bytes: int = 1 << 20, wait_s: float = 0) -> Fetched:
    fetch = Fetch(topic, [wanted], wait_s, max_bytes=max_bytes, partition_max_bytes=max_bytes)
    answer = connection.ask(fetch)
    assert answer.error == NO_ERROR
    (fetched,) = answer.partitions
    assert fetched.partition == wanted.partition
    return fetched


def read_all(connection: Connection, topic: str, partition: int, max_bytes: int) -> list[tuple[Any, ...]]:
    """Partition, offset, time, key and value of each record."""
    offset, end, epoch, rows = 0, 1, UNKNOWN_EPOCH, []
    while offset < end:
        fetched = ask(connection, topic, Wanted(partition, EPOCH, offset, epoch), max_bytes)
        assert (fetched.error, fetched.diverging) == (NO_ERROR, None)
        end = fetched.last_stable
        for batch in committed(fetched.records, fetched.aborted, offset):
            rows += [(partition, *row) for row in rows_of(batch.body, batch.columns)]
            offset, epoch = batch.head.next_offset, batch.head.leader_epoch
    return rows


def row_of(message: Message) -> tuple[Any, ...]:
    return message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value()


class Writers:
    """Producers of each codec, with transactions and without, of texts that compress."""

    def __init__(self, kafka: KafkaServer, topic: str) -> None:
        self._kafka, self._topic, self._draw = kafka, topic, random.Random(7)

    def producer(self, codec: str, **more: Any) -> Producer:
        access = self._kafka.access
        settings = producer_settings(access, ClientErrors(access), 5)
        return Producer(settings | {"compression.type": codec, **more})

    def transactional(self, codec: str) -> Producer:
        producer = self.producer(
            codec, **{"transactional.id": self._kafka.unique("fetch"), "delivery.timeout.ms": 30_000}
        )
        producer.init_transactions(WAIT_S)
        return producer

    def write(self, producer: Producer, count: int, partition: int = 0) -> None:
        """Waits until they are there: so batches of several producers interleave."""
        for _ in range(count):
            value, key = (self._draw.choice([None, b"", b"text" * self._draw.randrange(200)]) for _ in range(2))
            headers: list[tuple[str, str | bytes | None]] = [("name", b"value"), ("none", None)] * self._draw.randrange(
                2
            )
            time = NOW + self._draw.randrange(-5000, 5000)
            producer.produce(self._topic, value, key, partition, timestamp=time, headers=headers)
        assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize("time", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("max_bytes", [1, 3_000, 1 << 20])
def test_all_codecs_and_transactions(kafka: KafkaServer, connection: Connection, time: str, max_bytes: int) -> None:
    topic = kafka.create_topic(kafka.unique("fetch"), 2, {"message.timestamp.type": time})
    writers, draw = Writers(kafka, topic), random.Random(3)
    producers = [writers.transactional(codec) for codec in CODECS]
    for codec in CODECS:
        writers.write(writers.producer(codec), 40, 1)
    for _ in range(4):
        for producer in producers:
            producer.begin_transaction()
        for _ in range(12):
            writers.write(draw.choice(producers), draw.randrange(1, 30))
        for producer in producers:
            end = draw.choice([producer.commit_transaction, producer.abort_transaction])
            end(WAIT_S)
    expected = [row_of(message) for message in kafka.read_all(topic)]
    assert len(expected) > 300
    assert [row for partition in (0, 1) for row in read_all(connection, topic, partition, max_bytes)] == expected


def test_open_transactions_are_not_read(kafka: KafkaServer, connection: Connection) -> None:
    topic = kafka.create_topic(kafka.unique("fetch"))
    writers = Writers(kafka, topic)
    producer = writers.transactional("lz4")
    writers.write(writers.producer("lz4"), 3)
    producer.begin_transaction()
    writers.write(producer, 4)
    fetched = ask(connection, topic, Wanted(0, EPOCH, 0, UNKNOWN_EPOCH))
    assert (fetched.high_watermark, fetched.last_stable, fetched.log_start) == (7, 3, 0)
    assert [row[1] for row in read_all(connection, topic, 0, 1 << 20)] == [0, 1, 2]
    producer.abort_transaction(WAIT_S)


def test_what_the_broker_refuses(kafka: KafkaServer, connection: Connection) -> None:
    topic = kafka.create_topic(kafka.unique("fetch"))
    kafka.produce(topic, [b"v"] * 5)
    kafka.truncate(topic, 0, 2)

    def code(wanted: Wanted) -> int:
        return ask(connection, topic, wanted).error

    assert code(Wanted(0, EPOCH, 1, UNKNOWN_EPOCH)) == KafkaError.OFFSET_OUT_OF_RANGE
    assert code(Wanted(0, EPOCH, 6, UNKNOWN_EPOCH)) == KafkaError.OFFSET_OUT_OF_RANGE
    assert code(Wanted(0, EPOCH + 1, 2, UNKNOWN_EPOCH)) == KafkaError.UNKNOWN_LEADER_EPOCH
    assert code(Wanted(1, UNKNOWN_EPOCH, 0, UNKNOWN_EPOCH)) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert ask(connection, topic, Wanted(0, EPOCH, 2, UNKNOWN_EPOCH)).log_start == 2


def test_the_epoch_of_what_was_read(kafka: KafkaServer, connection: Connection) -> None:
    topic = kafka.create_topic(kafka.unique("fetch"))
    kafka.produce(topic, [b"v"] * 5)
    assert ask(connection, topic, Wanted(0, EPOCH, 5, EPOCH)).error == NO_ERROR
    unheard_of = ask(connection, topic, Wanted(0, EPOCH, 5, EPOCH + 3))
    assert (unheard_of.error, unheard_of.diverging) == (KafkaError.OFFSET_OUT_OF_RANGE, None)


def test_several_partitions_in_the_order_of_the_request(kafka: KafkaServer, connection: Connection) -> None:
    topic = kafka.create_topic(kafka.unique("fetch"), 3)
    for partition in range(3):
        kafka.produce(topic, [b"%d" % partition], partition=partition)
    wanted = [Wanted(partition, EPOCH, 0, UNKNOWN_EPOCH) for partition in (2, 0, 1)]
    answer = connection.ask(Fetch(topic, wanted, 5, max_bytes=1 << 20, partition_max_bytes=1 << 20))
    batches = [batch for found in answer.partitions for batch in committed(found.records, found.aborted, 0)]
    values = [row[3] for batch in batches for row in rows_of(batch.body, batch.columns)]
    assert [found.partition for found in answer.partitions] == [int(value) for value in values] == [2, 0, 1]


def test_waits_for_records(kafka: KafkaServer, connection: Connection) -> None:
    topic = kafka.create_topic(kafka.unique("fetch"))
    kafka.produce(topic, [b"first"])
    connection.send(Fetch(topic, [Wanted(0, EPOCH, 1, EPOCH)], WAIT_S, max_bytes=1, partition_max_bytes=1))
    kafka.produce(topic, [b"v"])
    (fetched,) = connection.receive().partitions
    (batch,) = committed(fetched.records, fetched.aborted, 1)
    assert [row[3] for row in rows_of(batch.body, batch.columns)] == [b"v"]
