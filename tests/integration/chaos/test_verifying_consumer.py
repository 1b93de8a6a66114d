"""The verifying consumer reads each record once, although its client loses a partition."""

import time

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.acceptance.installation import in_background
from tests.chaos import verifying_consumer
from tests.chaos.load import PARTITIONS
from tests.chaos.verifying_consumer import VerifyingConsumer
from tests.support.kafka import WAIT_S, KafkaServer

ROUND = 5


def write(kafka: KafkaServer, topic: str, first: int) -> None:
    """Write ROUND records to each partition in one transaction.

    The marker of the transaction also takes an offset.
    """
    producer = Producer({**kafka.plain_settings, "transactional.id": kafka.unique("writes")})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for offset in range(first, first + ROUND):
        for partition in range(PARTITIONS):
            source = f"source/{partition}/{offset}/0"
            producer.produce(topic, b"value", partition=partition, headers={"headwater-src": source})
    producer.commit_transaction(WAIT_S)


def wait(reader: VerifyingConsumer, fed: int) -> None:
    until = time.monotonic() + WAIT_S
    while not reader.verifier.complete(fed):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_partition_that_the_client_lost_is_read_on_without_repeats(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic(kafka.unique("seen"), PARTITIONS)
    monkeypatch.setattr(verifying_consumer, "CHECK_EVERY_S", 0.5)
    reader = VerifyingConsumer({**kafka.plain_settings, "group.id": kafka.unique("reads")}, topic, lambda _: [b"value"])
    reader._consumer.pause([TopicPartition(topic, 2)])
    with in_background(reader):
        for first in (0, ROUND):
            write(kafka, topic, first)
            wait(reader, (first + ROUND) * PARTITIONS)
        time.sleep(1.5)
    assert reader.stalls >= 1  # on a busy machine the consumer may be replaced again
    verifier = reader.verifier
    assert (verifier.repeats, verifier.wrong, verifier.inversions) == (0, 0, 0)
