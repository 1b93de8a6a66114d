"""The reader of the chaos runs: what its client loses it reads all the same, once."""

import time

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.acceptance.stack import beside
from tests.chaos import witness
from tests.chaos.load import PARTITIONS
from tests.chaos.witness import Witness
from tests.support.kafka import WAIT_S, KafkaServer

ROUND = 5


def write(kafka: KafkaServer, topic: str, first: int) -> None:
    """A transaction of ROUND records in each partition, numbered on from `first`; its mark takes an offset too."""
    producer = Producer({**kafka.plain_settings, "transactional.id": kafka.unique("writes")})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for offset in range(first, first + ROUND):
        for partition in range(PARTITIONS):
            source = f"source/{partition}/{offset}/0"
            producer.produce(topic, b"value", partition=partition, headers={"headwater-src": source})
    producer.commit_transaction(WAIT_S)


def wait(reader: Witness, fed: int) -> None:
    until = time.monotonic() + WAIT_S
    while not reader.account.complete(fed):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_reads_on_where_its_client_lost_a_partition(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.create_topic(kafka.unique("seen"), PARTITIONS)
    monkeypatch.setattr(witness, "LOOK_EVERY_S", 0.5)
    reader = Witness({**kafka.plain_settings, "group.id": kafka.unique("reads")}, topic, lambda _: [b"value"])
    reader._consumer.pause([TopicPartition(topic, 2)])
    with beside(reader):
        for first in (0, ROUND):
            write(kafka, topic, first)
            wait(reader, (first + ROUND) * PARTITIONS)
        time.sleep(1.5)
    assert reader.stalls >= 1  # a machine without CPU to give makes it look again
    account = reader.account
    assert (account.repeats, account.wrong, account.inversions) == (0, 0, 0)
