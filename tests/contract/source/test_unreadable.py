"""KafkaSource reports partitions that cannot be read for a while, and continues afterwards."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.brokers.base import Acl, DeploymentResources, User
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.brokers.producer import LibrdkafkaProducer
from headwater.errors import BrokerUnavailable
from headwater.native import BytesColumn
from headwater.sources import stalled_consumer
from headwater.sources.base import Source
from headwater.sources.kafka import KafkaSource
from tests.support.columns import numbers
from tests.support.kafka import WAIT_S, KafkaServer
from tests.support.sources import POLL_S, POLLS, KafkaBench, joined, read, rows, start


def poll_until(source: Source, done: Callable[[], bool]) -> None:
    """Poll a source that has no records."""
    for _ in range(POLLS):
        if done():
            return
        assert not source.poll(10, POLL_S)
    raise AssertionError("it did not happen")


def test_an_open_transaction_of_another_producer(
    kafka: KafkaServer, kafka_bench: KafkaBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalled_consumer, "BLOCKED_AFTER_S", 0.5)
    source, _ = start(kafka_bench)
    kafka_bench.append(0, [b"before"])
    assert read(source, 1) == [(0, 0, b"before")]
    settings = producer_settings(kafka.access, ClientErrors(kafka.access), 0)
    more = {"transactional.id": kafka.unique("tx"), "delivery.timeout.ms": 10_000}
    with contextlib.closing(LibrdkafkaProducer(settings | more)) as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        columns = BytesColumn.of([b"held"]), BytesColumn.of([None]), numbers([0]), numbers([0])
        assert producer.new_batch(kafka_bench.topic, *columns)[1].enqueue()
        assert producer.flush(WAIT_S) == 0
        kafka_bench.append(0, [b"behind"])
        poll_until(source, lambda: bool(source.unreadable()))
        [(partition, why)] = source.unreadable().items()
        assert partition == 0
        assert f"Records of {kafka_bench.topic}, partition 0, from offset 1 on can't be read" in why
        assert "kafka-transactions.sh abort" in why
        producer.abort_transaction(WAIT_S)
    assert read(source, 1) == [(0, 2, b"behind")]
    poll_until(source, lambda: not source.unreadable())
    assert source.take_gaps() == []


def refusal(source: Source) -> str:
    """Return the error that the source raises when Kafka rejects its requests.

    No record may come before.
    """
    for _ in range(POLLS):
        try:
            assert not source.poll(10, POLL_S)
        except BrokerUnavailable as error:
            return error.detail
    raise AssertionError("it is not refused")


def test_a_read_acl_that_is_removed_and_restored(kafka: KafkaServer, kafka_bench: KafkaBench) -> None:
    broker, user = KafkaClusterAdmin(kafka.access), User(kafka.unique("reader"), "a password")
    group = Acl(user.name, "group", kafka_bench.group, ("READ",))
    owned = DeploymentResources((), (user,), (group, Acl(user.name, "topic", kafka_bench.topic, ("READ",))))
    broker.ensure(owned)
    kafka_bench.pin({0: 0, 1: 0})
    source = KafkaSource(kafka.user(user.name, user.password), kafka_bench.topic, kafka_bench.group)
    with contextlib.closing(source):
        assert joined(source).owned == {0, 1}
        kafka_bench.append(0, [b"a"])
        assert read(source, 1) == [(0, 0, b"a")]
        broker.remove_stale(replace(owned, acls=(group,)), [])
        KafkaClusterAdmin(kafka.user(user.name, user.password)).ping(kafka_bench.topic)
        assert "uthorization" in refusal(source)
        kafka_bench.append(0, [b"b"])
        broker.ensure(owned)
        assert read_despite_errors(source) == [(0, 1, b"b")]
        assert source.take_gaps() == []


def read_despite_errors(source: Source) -> list[tuple[int, int, bytes | None]]:
    """Return the next records, ignoring errors before them."""
    for _ in range(POLLS):
        with contextlib.suppress(BrokerUnavailable):
            if batch := source.poll(10, POLL_S):
                return rows(batch)
    raise AssertionError("no record has come")
