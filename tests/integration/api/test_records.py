"""The newest records of a topic, and the first ones from a time on, in a real Kafka."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.kafka_topic_history import KafkaTopicHistory
from headwater.errors import BrokerUnavailable, NotFound
from headwater.services.records import MAX_BYTES, Records
from headwater.services.viewable_topics import ViewableTopic
from tests.support.kafka import WAIT_S, KafkaServer
from tests.support.waiting import until

NOW_MS = 1_780_000_000_000


class Reader:
    """Reads records as the API does."""

    def __init__(self, history: KafkaTopicHistory) -> None:
        self._records = Records({None: history}, time.monotonic)

    def newest(self, topic: str, count: int) -> list[Any]:
        return self._read(topic, count, None)

    def since(self, topic: str, time_ms: int, count: int) -> list[Any]:
        return self._read(topic, count, datetime.fromtimestamp(time_ms / 1000, UTC))

    def _read(self, topic: str, count: int, since: datetime | None) -> list[Any]:
        return [json.loads(item) for item in self._records.read(ViewableTopic(topic, None, topic), count, since)]


@pytest.fixture
def reader(kafka: KafkaServer) -> Iterator[Reader]:
    with closing(KafkaTopicHistory(kafka.access)) as history:
        yield Reader(history)


def values(items: Sequence[Any]) -> list[Any]:
    return [item["record"] for item in items]


def numbers(*bounds: int) -> list[bytes]:
    return [b"%d" % number for number in range(*bounds)]


def transactional_producer(kafka: KafkaServer) -> Producer:
    settings = producer_settings(kafka.access, ClientErrors(kafka.access), 0)
    more = {"transactional.id": kafka.unique("look"), "delivery.timeout.ms": 10_000}
    producer = Producer(settings | more)
    producer.init_transactions(WAIT_S)
    return producer


def test_the_newest_records_of_all_partitions_oldest_first(kafka: KafkaServer, reader: Reader) -> None:
    topic = kafka.create_topic(kafka.unique("newest"), 3)
    for i in range(12):
        kafka.produce(topic, [b"%d" % i], partition=i % 2, keys=[b"k%d" % i], timestamp_ms=NOW_MS + i)
    found = reader.newest(topic, 5)
    assert values(found) == [7, 8, 9, 10, 11]
    assert found[0] == {
        "record": 7,
        "partition": 1,
        "offset": 3,
        "timestamp": "2026-05-28T20:26:40.007Z",
        "key": "k7",
    }
    assert len(reader.newest(topic, 1000)) == 12


def test_one_partition_may_have_all_of_the_newest_records(kafka: KafkaServer, reader: Reader) -> None:
    topic = kafka.create_topic(kafka.unique("newest"), 4)
    for partition in range(4):
        kafka.produce(topic, [b"-1"] * 5, partition=partition, timestamp_ms=NOW_MS)
    kafka.produce(topic, numbers(2000), partition=2, timestamp_ms=NOW_MS + 1)
    assert values(reader.newest(topic, 1000)) == list(range(1000, 2000))
    assert values(reader.since(topic, NOW_MS + 1, 1000)) == list(range(1000))


def test_an_empty_topic_and_a_missing_one(kafka: KafkaServer, reader: Reader) -> None:
    empty = kafka.create_topic(kafka.unique("newest"), 2)
    assert reader.newest(empty, 10) == reader.since(empty, 0, 10) == []
    with pytest.raises(NotFound):
        reader.newest("no-such-topic", 10)
    with pytest.raises(NotFound):
        reader.since("no-such-topic", 0, 10)


def test_records_from_a_time_on(kafka: KafkaServer, reader: Reader) -> None:
    topic = kafka.create_topic(kafka.unique("since"), 3)
    for i in range(30):
        kafka.produce(topic, [b"%d" % i], partition=i % 2, timestamp_ms=NOW_MS + i)
    assert values(reader.since(topic, NOW_MS + 10, 4)) == [10, 11, 12, 13]
    assert values(reader.since(topic, NOW_MS + 28, 4)) == [28, 29]
    assert reader.since(topic, NOW_MS + 30, 4) == []


def test_offsets_without_records_are_skipped(kafka: KafkaServer, reader: Reader) -> None:
    """Each transaction ends with a control record, and aborted records are hidden.

    Kafka writes the last control records after `commit_transaction` has returned.
    """
    topic = kafka.create_topic(kafka.unique("transactions"))
    producer = transactional_producer(kafka)
    for i in range(120):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % i, partition=0)
        assert producer.flush(WAIT_S) == 0
        if i % 3:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    until(lambda: values(reader.newest(topic, 20)) == list(range(60, 120, 3)))
    assert values(reader.since(topic, 0, 20)) == list(range(0, 60, 3))
    assert len(reader.newest(topic, 1000)) == len(reader.since(topic, 0, 1000)) == 40


def test_an_open_transaction_is_not_waited_for(kafka: KafkaServer, reader: Reader) -> None:
    topic = kafka.create_topic(kafka.unique("transactions"))
    kafka.produce(topic, [b"1"])
    producer = transactional_producer(kafka)
    producer.begin_transaction()
    producer.produce(topic, b"2", partition=0)
    assert producer.flush(WAIT_S) == 0
    kafka.produce(topic, [b"3"])
    assert values(reader.newest(topic, 10)) == values(reader.since(topic, 0, 10)) == [1]
    producer.commit_transaction(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while len(found := reader.newest(topic, 10)) < 3:
        assert time.monotonic() < deadline, found
    assert values(found) == values(reader.since(topic, 0, 10)) == [1, 2, 3]


@pytest.mark.long
def test_a_topic_that_was_compacted(kafka: KafkaServer, reader: Reader) -> None:
    """Compaction leaves the last record of each key, with large gaps between their offsets."""
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic = kafka.create_topic(kafka.unique("compacted"), 1, config | {"max.compaction.lag.ms": "1"})
    kafka.produce(topic, [b"0"] * 5, keys=[b"k%d" % i for i in range(5)])
    kafka.produce(topic, [b"1"] * 5000, keys=[b"busy"] * 5000)
    deadline = time.monotonic() + WAIT_S
    while len(kafka.read_all(topic)) > 1000:
        assert time.monotonic() < deadline, "the topic was not compacted"
        kafka.produce(topic, [b"1"], keys=[b"busy"])
        time.sleep(0.5)
    for found in (reader.newest(topic, 1000), reader.since(topic, 0, 1000)):
        offsets = [item["offset"] for item in found]
        assert offsets == sorted(offsets)
        assert offsets[:5] == list(range(5))
        assert offsets[-1] >= 5005


def test_deleted_records_are_not_found(kafka: KafkaServer, reader: Reader) -> None:
    topic = kafka.create_topic(kafka.unique("deleted"))
    kafka.produce(topic, numbers(50))
    kafka.truncate(topic, 0, 45)
    assert values(reader.newest(topic, 20)) == values(reader.since(topic, 0, 20)) == list(range(45, 50))
    kafka.truncate(topic, 0, 50)
    assert reader.newest(topic, 20) == reader.since(topic, 0, 20) == []


def test_records_are_limited_by_their_size(kafka: KafkaServer, reader: Reader) -> None:
    topic = kafka.create_topic(kafka.unique("large"), 2)
    for i in range(30):
        kafka.produce(topic, [b'"%2d%s"' % (i, b"." * 900_000)], partition=i % 2, timestamp_ms=NOW_MS + i)
    newest, oldest = reader.newest(topic, 1000), reader.since(topic, NOW_MS, 1000)
    assert [int(value[:2]) for value in values(newest)] == list(range(22, 30))
    assert [int(value[:2]) for value in values(oldest)] == list(range(8))
    assert len(json.dumps(newest)) <= MAX_BYTES


def test_a_cluster_that_does_not_answer(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.brokers.kafka_topic_history.REQUEST_TIMEOUT_S", 0.2)
    nowhere = kafka.access.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    with closing(KafkaTopicHistory(nowhere)) as history, pytest.raises(BrokerUnavailable):
        Reader(history).newest("topic", 1)
