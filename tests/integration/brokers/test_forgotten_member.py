"""A group's member whose client stands still although Kafka is there."""

import time

import pytest

from headwater.sources import kafka as kafka_source
from tests.support.kafka import KafkaServer
from tests.support.sources import KafkaBench, Listener, read


@pytest.fixture
def bench(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> KafkaBench:
    monkeypatch.setattr(kafka_source, "REJOIN_S", 0.5)
    bench = KafkaBench(kafka)
    bench.append(0, [b"a", b"b"])
    bench.pin({0: 0, 1: 0})
    return bench


@pytest.mark.parametrize("instance_id", [None, "slot-0"])
def test_joins_anew(bench: KafkaBench, instance_id: str | None) -> None:
    source = bench.member(instance_id)
    source.join(Listener())
    source._consumer.unsubscribe()  # to the same effect: it never asks its group again
    assert read(source, 2) == [(0, 0, b"a"), (0, 1, b"b")]
    source.commit({0: 2}, wait=True)
    assert bench.positions()[0] == 2


def test_one_that_has_its_share_stays(bench: KafkaBench) -> None:
    source = bench.member("slot-0")
    source.join(Listener())
    read(source, 2)
    member, until = source._consumer, time.monotonic() + 1.5
    while time.monotonic() < until:
        source.poll(10, 0.1)
    assert source._consumer is member


def test_one_without_a_broker_waits(bench: KafkaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    source = bench.member("slot-0")
    source.join(Listener())
    source._consumer.unsubscribe()
    monkeypatch.setattr(source, "_access", source._access.model_copy(update={"bootstrap_servers": "127.0.0.1:1"}))
    member, until = source._consumer, time.monotonic() + 1.5
    while time.monotonic() < until:
        source.poll(10, 0.1)
    assert source._consumer is member
