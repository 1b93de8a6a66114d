"""An ingest reads tables and recent records from a real Kafka when it starts."""

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headwater.brokers import read_to_end
from headwater.brokers.base import INGEST_TOPIC_CONFIG
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.read_to_end import CommittedRecord, read_since, read_table
from headwater.errors import BrokerUnavailable
from tests.support.kafka import WAIT_S, KafkaServer


class Ingest:
    """Writes its position in transactions."""

    def __init__(self, kafka: KafkaServer, topic: str) -> None:
        self.name, self._topic = kafka.unique("ingest").encode(), topic
        settings = producer_settings(kafka.access, ClientErrors(kafka.access), 0)
        more = {"transactional.id": self.name.decode(), "delivery.timeout.ms": 10_000}
        self._client = Producer(settings | more)
        self._client.init_transactions(WAIT_S)

    def write(self, position: bytes) -> None:
        """Write records, and leave the transaction open."""
        self._client.begin_transaction()
        self._client.produce(self._topic, position, self.name, 0)
        assert self._client.flush(WAIT_S) == 0

    def commit(self, position: bytes) -> None:
        self.write(position)
        self._client.commit_transaction(WAIT_S)

    def abort(self) -> None:
        self._client.abort_transaction(WAIT_S)

    @contextlib.contextmanager
    def aborted_soon(self) -> Iterator[None]:
        timer = threading.Timer(1, self.abort)
        timer.start()
        yield
        timer.join()


@pytest.fixture
def table(kafka: KafkaServer) -> str:
    return kafka.create_topic(kafka.unique("table"), 2, INGEST_TOPIC_CONFIG)


@pytest.fixture
def ours(kafka: KafkaServer, table: str) -> Ingest:
    return Ingest(kafka, table)


@pytest.fixture
def other(kafka: KafkaServer, table: str) -> Ingest:
    return Ingest(kafka, table)


def test_a_table_has_the_last_value_of_each_key(kafka: KafkaServer) -> None:
    table = kafka.create_topic(kafka.unique("table"), 3, INGEST_TOPIC_CONFIG)
    assert read_table(kafka.access, table) == {}
    for partition in range(3):
        keys = [b"a%d" % partition, b"b%d" % partition, b"a%d" % partition, b"b%d" % partition]
        kafka.produce(table, [b"1", b"1", b"2", None], partition=partition, keys=keys)
    assert read_table(kafka.access, table) == {b"a0": b"2", b"a1": b"2", b"a2": b"2"}


def test_records_since_a_time(kafka: KafkaServer) -> None:
    now = int(time.time() * 1000)
    old, both = (kafka.create_topic(kafka.unique("since"), 2) for _ in range(2))
    kafka.produce(old, [b"before"], timestamp_ms=now - 1)
    kafka.produce(both, [b"before"], partition=1, timestamp_ms=now - 1)
    kafka.produce(both, [b"1", None], partition=1, keys=[None, b"k"], timestamp_ms=now)
    kafka.produce(both, [b"2"], partition=0, keys=[b"k"], timestamp_ms=now + 1)
    found = list(read_since(kafka.access, [old, both], now))
    assert [kept for kept in found if kept.value != b"2"] == [
        CommittedRecord(both, None, b"1"),
        CommittedRecord(both, b"k", None),
    ]
    assert [kept for kept in found if kept.value == b"2"] == [CommittedRecord(both, b"k", b"2")]


def test_a_missing_topic_is_an_error(kafka: KafkaServer) -> None:
    with pytest.raises(BrokerUnavailable, match="UNKNOWN_TOPIC_OR_PART"):
        read_table(kafka.access, "no-such-topic")
    with pytest.raises(BrokerUnavailable, match="UNKNOWN_TOPIC_OR_PART"):
        list(read_since(kafka.access, [kafka.create_topic(kafka.unique("since")), "no-such-topic"], 0))


def test_a_table_is_read_past_an_open_transaction(kafka: KafkaServer, table: str, ours: Ingest, other: Ingest) -> None:
    """A read_committed consumer sees nothing after the open transaction until it is aborted."""
    ours.commit(b"1")
    other.write(b"never")
    ours.commit(b"2")
    with other.aborted_soon():
        assert read_table(kafka.access, table) == {ours.name: b"2"}


def test_records_since_a_time_after_an_open_transaction(
    kafka: KafkaServer, table: str, ours: Ingest, other: Ingest
) -> None:
    """The open transaction may hide all of these records."""
    other.write(b"never")
    now = int(time.time() * 1000)
    ours.commit(b"1")
    with other.aborted_soon():
        assert list(read_since(kafka.access, [table], now)) == [CommittedRecord(table, ours.name, b"1")]


def test_an_end_without_records(kafka: KafkaServer, table: str, ours: Ingest) -> None:
    ours.write(b"never")
    ours.abort()
    assert read_table(kafka.access, table) == {}
    ours.commit(b"1")
    ours.write(b"never")
    ours.abort()
    assert read_table(kafka.access, table) == {ours.name: b"1"}


def test_a_wait_for_a_transaction_can_be_stopped(kafka: KafkaServer, table: str, ours: Ingest) -> None:
    ours.write(b"1")
    stop = threading.Event()
    timer = threading.Timer(1, stop.set)
    timer.start()
    begun = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="was stopped"):
        read_table(kafka.access, table, stop)
    assert time.monotonic() - begun < read_to_end.NEXT_RECORD_TIMEOUT_S / 2
    timer.join()
    ours.abort()


def test_a_transaction_that_does_not_end(
    kafka: KafkaServer, table: str, ours: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records on other partitions do not end the wait."""
    monkeypatch.setattr(read_to_end, "NEXT_RECORD_TIMEOUT_S", 1.0)
    ours.write(b"1")
    stop = threading.Event()

    def write_elsewhere() -> None:
        while not stop.wait(0.1):
            kafka.produce(table, [b"1"], partition=1, keys=[b"k"])

    kafka.produce(table, [b"1"], partition=1, keys=[b"k"])
    writer = threading.Thread(target=write_elsewhere)
    writer.start()
    try:
        with pytest.raises(BrokerUnavailable, match=f"{table} for 1 s: .* a transaction is open"):
            read_table(kafka.access, table)
    finally:
        stop.set()
        writer.join()
        ours.abort()


def test_a_login_that_fails(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_to_end, "REQUEST_TIMEOUT_S", 1.0)
    with pytest.raises(BrokerUnavailable, match="rejects the user nobody: check"):
        read_table(kafka.user("nobody", "wrong"), "any")
