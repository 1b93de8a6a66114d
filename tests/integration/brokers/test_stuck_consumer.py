"""A member of a consumer group whose client is stuck although Kafka answers."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.brokers import librdkafka_client
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.brokers.consumer import LibrdkafkaConsumer
from headwater.brokers.librdkafka_client import LibrdkafkaClient
from headwater.brokers.topic_monitor import TopicMonitor
from headwater.errors import WorkerError
from headwater.sources import kafka as kafka_source
from tests.support.kafka import WAIT_S, KafkaServer
from tests.support.sources import KafkaBench, Listener, joined, read

SHORT_REJOIN_AFTER_S = 1.0


@pytest.fixture
def bench(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaBench]:
    monkeypatch.setattr(kafka_source, "REJOIN_AFTER_S", SHORT_REJOIN_AFTER_S)
    with contextlib.closing(KafkaBench(kafka)) as bench:
        bench.append(0, [b"a", b"b"])
        bench.pin({0: 0, 1: 0})
        yield bench


def member_with_stuck_consumer(bench: KafkaBench, instance_id: str | None) -> kafka_source.KafkaSource:
    source = bench.member(instance_id)
    source.join(Listener())
    source._consumer.unsubscribe()  # like a stuck client, it sends no more requests to the group coordinator
    return source


@pytest.mark.parametrize("instance_id", [None, "slot-0"])
def test_a_stuck_consumer_is_replaced(bench: KafkaBench, instance_id: str | None) -> None:
    source = member_with_stuck_consumer(bench, instance_id)
    assert read(source, 2) == [(0, 0, b"a"), (0, 1, b"b")]
    source.commit({0: 2}, wait=True)
    assert bench.positions()[0] == 2


def keeps_consumer(source: kafka_source.KafkaSource) -> bool:
    """Return whether the source keeps its consumer during several checks."""
    member, until = source._consumer, time.monotonic() + 4 * SHORT_REJOIN_AFTER_S
    while time.monotonic() < until:
        source.poll(10, 0.1)
    return source._consumer is member


def test_a_member_with_partitions_keeps_its_consumer(bench: KafkaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "REJOIN_AFTER_S", WAIT_S)
    source = bench.member("slot-0")
    joined(source)
    monkeypatch.setattr(kafka_source, "REJOIN_AFTER_S", SHORT_REJOIN_AFTER_S)
    assert keeps_consumer(source)


@pytest.mark.long
def test_a_member_without_partitions_keeps_its_consumer(bench: KafkaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kafka_source, "REJOIN_AFTER_S", WAIT_S
    )  # three joins take longer than SHORT_REJOIN_AFTER_S on a busy machine
    sources = [bench.member(f"slot-{n}") for n in range(3)]  # of two partitions
    listeners = [Listener() for _ in sources]
    for source, listener in zip(sources, listeners, strict=True):
        source.join(listener)
    until = time.monotonic() + WAIT_S
    while sorted(len(listener.owned) for listener in listeners) != [0, 1, 1] or not all(li.calls for li in listeners):
        assert time.monotonic() < until
        for source in sources:
            source.poll(10, 0.05)
    monkeypatch.setattr(kafka_source, "REJOIN_AFTER_S", SHORT_REJOIN_AFTER_S)
    (idle,) = (source for source, listener in zip(sources, listeners, strict=True) if not listener.owned)
    assert keeps_consumer(idle)


@contextlib.contextmanager
def with_monitor(
    source: kafka_source.KafkaSource, monitor: TopicMonitor, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Give the source another topic monitor."""
    with contextlib.closing(monitor), monkeypatch.context() as patch:
        patch.setattr(source, "_monitor", monitor)
        yield


def test_a_member_without_a_broker_keeps_its_consumer(bench: KafkaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    source = member_with_stuck_consumer(bench, "slot-0")
    nowhere = source._access.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    with with_monitor(source, TopicMonitor(nowhere, bench.topic), monkeypatch):
        assert keeps_consumer(source)


def test_a_member_of_a_missing_topic_keeps_its_consumer(bench: KafkaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    source = member_with_stuck_consumer(bench, "slot-0")
    with with_monitor(source, TopicMonitor(source._access, "no-such-topic"), monkeypatch):
        assert keeps_consumer(source)


@pytest.fixture
def hanging_destruction(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the destruction of each client hang until the end of the test."""
    may_free = threading.Event()
    free = LibrdkafkaClient._free

    def free_when_allowed(client: LibrdkafkaClient, handle: Any) -> None:
        may_free.wait()
        free(client, handle)

    monkeypatch.setattr(librdkafka_client, "DESTROY_TIMEOUT_S", 0.1)
    monkeypatch.setattr(LibrdkafkaClient, "_free", free_when_allowed)
    yield
    may_free.set()


@pytest.mark.usefixtures("hanging_destruction")
def test_clients_that_can_not_be_closed_end_the_worker(bench: KafkaBench) -> None:
    source = member_with_stuck_consumer(bench, "slot-0")
    assert read(source, 2) == [(0, 0, b"a"), (0, 1, b"b")], "the first client that can't be closed gets a successor"
    source._subscribe()
    source._consumer.unsubscribe()
    with pytest.raises(WorkerError, match="can't be closed"):
        keeps_consumer(source)


def test_a_member_with_an_unanswered_revocation_can_be_closed(kafka: KafkaServer, bench: KafkaBench) -> None:
    """The group has assigned partitions to it that its client does not read."""
    group = kafka.unique("group")
    settings = consumer_settings(kafka.access, ClientErrors(kafka.access), group)
    member, other = LibrdkafkaConsumer(settings, bench.topic), LibrdkafkaConsumer(settings, bench.topic)
    member.subscribe()
    deadline, revoked = time.monotonic() + WAIT_S, False
    while not revoked and time.monotonic() < deadline:
        member.fetch(1, 1, 0.1)
        other.fetch(1, 1, 0.1)
        for change in member.take_rebalances():
            if change.is_assignment:
                member.incremental_assign([])
                other.subscribe()
            else:
                revoked = True
    assert revoked
    assert member.close()
    assert other.close()
