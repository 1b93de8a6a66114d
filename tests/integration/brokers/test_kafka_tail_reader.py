"""New records of topics of a real Kafka are delivered to listeners."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from confluent_kafka import Producer

from headwater.brokers import kafka_tail_reader
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.kafka_tail_reader import KafkaTailReader
from headwater.brokers.tail_reader import EndReason
from headwater.errors import BrokerUnavailable, TopicMissing
from headwater.model.topic_record import TopicRecord
from tests.support.kafka import WAIT_S, KafkaServer, OwnKafka
from tests.support.waiting import until


class Listener:
    """Collects what it gets."""

    def __init__(self) -> None:
        self.records: list[TopicRecord] = []
        self.skipped = 0
        self.ended: EndReason | None = None

    def deliver(self, records: Sequence[TopicRecord], skipped: int) -> None:
        self.records += records
        self.skipped += skipped

    def end(self, reason: EndReason) -> None:
        self.ended = reason

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    def wait_for(self, count: int) -> None:
        until(lambda: len(self.records) + self.skipped >= count, WAIT_S, f"{count} records have arrived")


@pytest.fixture
def reader(kafka: KafkaServer) -> Iterator[KafkaTailReader]:
    with closing(KafkaTailReader(kafka.access)) as reader:
        yield reader


def test_only_new_records_of_all_partitions(kafka: KafkaServer, reader: KafkaTailReader) -> None:
    topic, listener = kafka.create_topic(kafka.unique("tail"), 3), Listener()
    kafka.produce(topic, [b"old"] * 5, partition=1)
    reader.subscribe(topic, listener)
    for partition in range(3):
        kafka.produce(topic, [b"%d" % partition], partition=partition, keys=[b"k"])
    listener.wait_for(3)
    assert sorted(record.value or b"" for record in listener.records) == [b"0", b"1", b"2"]
    [record] = [each for each in listener.records if each.value == b"1"]
    assert (record.partition, record.offset, record.key) == (1, 5, b"k")


def test_a_later_listener_gets_only_what_follows(kafka: KafkaServer, reader: KafkaTailReader) -> None:
    """All listeners of a topic share one reader."""
    topic = kafka.create_topic(kafka.unique("tail"))
    listeners: list[Listener] = []
    for number in range(20):
        listener = Listener()
        reader.subscribe(topic, listener)
        listeners.append(listener)
        kafka.produce(topic, [b"%d" % number])
    for number, listener in enumerate(listeners):
        listener.wait_for(20 - number)
        assert listener.values == [b"%d" % each for each in range(number, 20)]


def test_a_subscription_during_writes_misses_nothing(
    kafka: KafkaServer, reader: KafkaTailReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_tail_reader, "MAX_DELIVERED", 1_000)  # no poll returns more, so none are skipped
    topic, stop = kafka.create_topic(kafka.unique("tail"), 2), threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            kafka.produce(topic, [b"%d" % written], partition=written % 2)
            written += 1

    writer = threading.Thread(target=write)
    writer.start()
    listeners = []
    try:
        for _ in range(10):
            listener = Listener()
            reader.subscribe(topic, listener)
            listeners.append((written, listener))
            until(lambda: listener.records, WAIT_S, "a record has arrived")  # noqa: B023  # called at once
    finally:
        stop.set()
        writer.join()
    for before, listener in listeners:
        first = int(listener.records[0].value or b"")
        listener.wait_for(written - first)
        numbers = [int(value or b"") for value in listener.values]
        assert sorted(numbers) == list(range(min(numbers), written))
        assert min(numbers) <= before + 1, "a record that was appended after the subscription is missing"


def test_a_listener_that_has_unsubscribed_gets_nothing(kafka: KafkaServer, reader: KafkaTailReader) -> None:
    topic, first, second = kafka.create_topic(kafka.unique("tail")), Listener(), Listener()
    reader.subscribe(topic, first)
    reader.subscribe(topic, second)
    kafka.produce(topic, [b"1"])
    first.wait_for(1)
    second.wait_for(1)
    reader.unsubscribe(first)
    reader.unsubscribe(first)
    kafka.produce(topic, [b"2"])
    second.wait_for(2)
    reader.unsubscribe(second)
    kafka.produce(topic, [b"3"])
    reader.subscribe(topic, second)
    kafka.produce(topic, [b"4"])
    second.wait_for(3)
    assert (first.values, second.values) == ([b"1"], [b"1", b"2", b"4"])


def test_records_above_the_limit_are_counted(kafka: KafkaServer, reader: KafkaTailReader) -> None:
    topic, listener = kafka.create_topic(kafka.unique("tail")), Listener()
    reader.subscribe(topic, listener)
    kafka.produce(topic, [b"x"] * 5000)
    listener.wait_for(5000)
    assert listener.skipped > 0
    assert len(listener.records) + listener.skipped == 5000


def test_committed_records_of_a_transaction(kafka: KafkaServer, reader: KafkaTailReader) -> None:
    topic, listener = kafka.create_topic(kafka.unique("tail")), Listener()
    settings = producer_settings(kafka.access, ClientErrors(kafka.access), 0)
    producer = Producer(settings | {"transactional.id": kafka.unique("look"), "delivery.timeout.ms": 10_000})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"before", partition=0)
    assert producer.flush(WAIT_S) == 0
    reader.subscribe(topic, listener)
    producer.produce(topic, b"after", partition=0)
    producer.commit_transaction(WAIT_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, end.__name__.encode(), partition=0)
        end(WAIT_S)
    listener.wait_for(2)
    assert listener.values == [b"after", b"commit_transaction"]


def test_new_partitions_are_noticed(
    kafka: KafkaServer, reader: KafkaTailReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_tail_reader, "DESCRIBE_EVERY_S", 0.1)
    topic, listener = kafka.create_topic(kafka.unique("tail")), Listener()
    reader.subscribe(topic, listener)
    kafka.grow(topic, 3)
    kafka.produce(topic, [b"new"], partition=2)
    listener.wait_for(1)
    assert listener.records[0].partition == 2


def test_a_topic_that_is_created_again(
    kafka: KafkaServer, reader: KafkaTailReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_tail_reader, "DESCRIBE_EVERY_S", 0.1)
    monkeypatch.setattr(kafka_tail_reader, "MAX_MISSING", 1_000)
    topic, listener = kafka.create_topic(kafka.unique("tail")), Listener()
    kafka.produce(topic, [b"old"] * 10)
    reader.subscribe(topic, listener)
    kafka.produce(topic, [b"1"])
    listener.wait_for(1)
    kafka.recreate_topic(topic, 1)
    kafka.produce(topic, [b"2"])
    listener.wait_for(2)
    assert listener.values == [b"1", b"2"]


def test_a_removed_topic_ends_its_subscriptions(
    kafka: KafkaServer, reader: KafkaTailReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_tail_reader, "DESCRIBE_EVERY_S", 0.1)
    topic, other = kafka.create_topic(kafka.unique("tail")), kafka.create_topic(kafka.unique("tail"))
    gone, kept = Listener(), Listener()
    reader.subscribe(topic, gone)
    reader.subscribe(other, kept)
    kafka.admin.delete_topics([topic])[topic].result(WAIT_S)
    until(lambda: gone.ended, WAIT_S, "the subscription has ended")
    assert (gone.ended, kept.ended) == ("topic_removed", None)
    kafka.produce(other, [b"1"])
    kept.wait_for(1)


def test_a_missing_topic_and_a_closed_reader(kafka: KafkaServer, reader: KafkaTailReader) -> None:
    with pytest.raises(TopicMissing):
        reader.subscribe("no-such-topic", Listener())
    reader.close()
    with pytest.raises(BrokerUnavailable):
        reader.subscribe(kafka.create_topic(kafka.unique("tail")), Listener())


def test_the_thread_ends_some_time_after_the_last_subscription(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_tail_reader, "LINGER_S", 0.0)
    with closing(KafkaTailReader(kafka.access)) as reader:
        before = set(threading.enumerate())
        topic = kafka.create_topic(kafka.unique("tail"))
        for number in range(2):
            listener = Listener()
            reader.subscribe(topic, listener)
            kafka.produce(topic, [b"%d" % number])
            listener.wait_for(1)
            reader.unsubscribe(listener)
            until(lambda: not set(threading.enumerate()) - before, WAIT_S, "the thread has ended")


@pytest.mark.long
def test_a_broker_that_restarts_interrupts_and_ends_nothing(own_kafka: OwnKafka) -> None:
    kafka = own_kafka.server
    topic, listener = kafka.create_topic(kafka.unique("tail"), 2), Listener()
    with closing(KafkaTailReader(kafka.access)) as reader:
        reader.subscribe(topic, listener)
        kafka.produce(topic, [b"1"])
        listener.wait_for(1)
        own_kafka.kill()
        own_kafka.start()
        kafka.produce(topic, [b"2"], partition=1)
        listener.wait_for(2)
    assert (listener.values, listener.ended) == ([b"1", b"2"], None)


def test_a_login_that_fails_ends_the_subscriptions(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, listener = kafka.create_topic(kafka.unique("tail")), Listener()
    with closing(KafkaTailReader(kafka.access)) as reader:
        monkeypatch.setattr(reader, "_access", kafka.user("nobody", "wrong"))
        reader.subscribe(topic, listener)
        until(lambda: listener.ended, WAIT_S, "the subscription has ended")
    assert listener.ended == "broker_unavailable"


def test_a_login_that_fails_is_named(kafka: KafkaServer) -> None:
    with (
        closing(KafkaTailReader(kafka.user("nobody", "wrong"))) as reader,
        pytest.raises(BrokerUnavailable, match="rejects the user nobody: check"),
    ):
        reader.subscribe("any", Listener())
