"""What an ingest reads back from a real Kafka when it starts."""

import time

import pytest

from headwater.brokers.base import INGEST_TOPIC_CONFIG
from headwater.errors import BrokerUnavailable
from headwater.sources.read_back import Kept, read_since, read_table
from tests.support.kafka import KafkaServer


def test_a_table_has_the_last_value_of_each_key(kafka: KafkaServer) -> None:
    table = kafka.create_topic(kafka.unique("table"), 3, INGEST_TOPIC_CONFIG)
    assert read_table(kafka.access, table) == {}
    for partition in range(3):
        keys = [b"a%d" % partition, b"b%d" % partition, b"a%d" % partition, b"b%d" % partition]
        kafka.produce(table, [b"1", b"1", b"2", None], partition=partition, keys=keys)
    assert read_table(kafka.access, table) == {b"a0": b"2", b"a1": b"2", b"a2": b"2"}


def test_what_came_since_a_time(kafka: KafkaServer) -> None:
    now = int(time.time() * 1000)
    old, both = (kafka.create_topic(kafka.unique("since"), 2) for _ in range(2))
    kafka.produce(old, [b"before"], timestamp_ms=now - 1)
    kafka.produce(both, [b"before"], partition=1, timestamp_ms=now - 1)
    kafka.produce(both, [b"1", None], partition=1, keys=[None, b"k"], timestamp_ms=now)
    kafka.produce(both, [b"2"], partition=0, keys=[b"k"], timestamp_ms=now + 1)
    found = list(read_since(kafka.access, [old, both], now))
    assert [kept for kept in found if kept.value != b"2"] == [Kept(both, None, b"1"), Kept(both, b"k", None)]
    assert [kept for kept in found if kept.value == b"2"] == [Kept(both, b"k", b"2")]


def test_a_topic_that_is_not_there_is_no_empty_one(kafka: KafkaServer) -> None:
    with pytest.raises(BrokerUnavailable, match="UNKNOWN_TOPIC_OR_PART"):
        read_table(kafka.access, "no-such-topic")
    with pytest.raises(BrokerUnavailable, match="UNKNOWN_TOPIC_OR_PART"):
        list(read_since(kafka.access, [kafka.create_topic(kafka.unique("since")), "no-such-topic"], 0))
