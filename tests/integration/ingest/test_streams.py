"""An ingest writes records and its position in one transaction, although it is killed."""

from threading import Event

import pytest
from confluent_kafka import Producer

from headwater.app.ingest_target import IngestTarget
from headwater.brokers.base import INGEST_TOPIC_CONFIG
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.errors import TransactionFailed
from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.writer import POSITIONS_TOPIC, StreamTopic, transactional_id
from tests.support.kafka import KafkaServer


@pytest.fixture
def streams(kafka: KafkaServer) -> IngestTarget:
    if POSITIONS_TOPIC not in kafka.admin.list_topics(timeout=10).topics:
        kafka.create_topic(POSITIONS_TOPIC, 1, INGEST_TOPIC_CONFIG)
    topic = kafka.create_topic(kafka.unique("stream.base.log"), 4)
    return IngestTarget(kafka.access, {"log": StreamTopic(topic, 4)}, kafka.unique("ingest"), Event())


def block(number: int) -> Step:
    return Step([StreamRecord("log", b"%d:%d" % (number, n), b"%d" % number) for n in range(8)], b"%d" % number, 1)


def values(kafka: KafkaServer, streams: IngestTarget, count: int) -> list[bytes]:
    found = kafka.consume(streams.topics["log"].topic, count)
    return sorted(value for value in (message.value() for message in found) if isinstance(value, bytes))


def test_records_and_position(kafka: KafkaServer, streams: IngestTarget) -> None:
    with streams.open() as (writer, position):
        assert position is None
        writer.write(block(1))
        writer.write(block(2))
    with streams.open() as (writer, position):
        assert position == b"2"
        writer.write(block(3))
    assert values(kafka, streams, 24) == [b"1"] * 8 + [b"2"] * 8 + [b"3"] * 8


def test_an_open_transaction_of_a_killed_ingest_is_ignored(kafka: KafkaServer, streams: IngestTarget) -> None:
    with streams.open() as (writer, _):
        writer.write(block(1))
    topic = streams.topics["log"].topic
    dead = Producer(
        producer_settings(streams.access, ClientErrors(streams.access), 0)
        | {"transactional.id": transactional_id(streams.name), "delivery.timeout.ms": 10_000}
    )
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(topic, b"torn", b"k", 0)
    dead.produce(POSITIONS_TOPIC, b"2", streams.name.encode(), 0)
    dead.flush(30)
    with streams.open() as (writer, position):
        assert position == b"1"
        writer.write(block(2))
    assert values(kafka, streams, 16) == [b"1"] * 8 + [b"2"] * 8
    dead.purge()


def test_a_successor_fences_the_first_ingest(kafka: KafkaServer, streams: IngestTarget) -> None:
    with streams.open() as (first, _), streams.open() as (second, _):
        second.write(block(1))
        with pytest.raises(TransactionFailed):
            first.write(block(1))
    assert values(kafka, streams, 8) == [b"1"] * 8
