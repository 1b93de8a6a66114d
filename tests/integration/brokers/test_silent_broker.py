"""Calls of a group member while the broker hangs."""

import time

import pytest

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.brokers.consumer import LibrdkafkaConsumer
from headwater.errors import BrokerUnavailable
from headwater.sources import kafka as kafka_source
from headwater.sources.kafka import KafkaSource
from tests.support.kafka import OwnKafka
from tests.support.sources import joined

RETURNS_WITHIN_S = 60.0
"""This is longer than the time limits of all calls together."""


@pytest.mark.timeout(2 * RETURNS_WITHIN_S)
@pytest.mark.long
def test_commit_and_close_return(own_kafka: OwnKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "COMMIT_TIMEOUT_S", 1.0)
    kafka = own_kafka.server
    topic, group = kafka.create_topic(kafka.unique("stream")), kafka.unique("group")
    kafka.produce(topic, [b"a"])
    kafka.commit(group, topic, {0: 0})
    source = KafkaSource(kafka.access, topic, group, instance_id="slot-0")
    joined(source)
    own_kafka.suspend()
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="does not answer"):
        source.commit({0: 1}, wait=True)
    source.close()
    assert time.monotonic() - began < RETURNS_WITHIN_S


def test_a_member_that_has_not_joined_can_close(own_kafka: OwnKafka) -> None:
    kafka = own_kafka.server
    topic = kafka.create_topic(kafka.unique("stream"))
    own_kafka.suspend()
    member = LibrdkafkaConsumer(
        consumer_settings(kafka.access, ClientErrors(kafka.access), kafka.unique("group")), topic
    )
    member.subscribe()
    assert member.close()
