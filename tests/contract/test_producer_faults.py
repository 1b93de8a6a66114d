"""The producer writes each record once and in order while its connections break."""

import itertools
import random
import time

import pytest

from headwater.sinks.idempotent_producer import IdempotentKafkaProducer
from headwater.sinks.outputs import OutputBatch
from tests.support.connections import breaking
from tests.support.kafka import KafkaServer

RECORDS, PER_CALL, PARTITIONS = 12_000, 200, 3
NOW = 1_700_000_000_000


@pytest.mark.long
def test_each_record_is_written_once_while_connections_break(kafka: KafkaServer) -> None:
    topic = kafka.create_topic(kafka.unique("cut"), PARTITIONS)
    producer = IdempotentKafkaProducer(kafka.access, [topic])
    with breaking(kafka.port, 0.25, random.Random(5)):
        for first in range(0, RECORDS, PER_CALL):
            rows = range(first, first + PER_CALL)
            values = [b"%d" % row + b"x" * (row % 300) for row in rows]
            producer.produce(
                OutputBatch.of(topic, values, [None] * PER_CALL, [row % PARTITIONS for row in rows], [NOW] * PER_CALL)
            )
            if not first % 2000:
                producer.flush(0.02)
        deadline = time.monotonic() + 60
        while producer.flush(0.1) and time.monotonic() < deadline:
            pass
    assert producer.flush(60) == 0
    assert producer.take_failures() == []
    producer.close()
    found = kafka.consume(topic, RECORDS)
    assert sum(kafka.end_offsets(topic).values()) == RECORDS
    for partition, messages in itertools.groupby(found, key=lambda message: message.partition()):
        numbers = [int((message.value() or b"").rstrip(b"x")) for message in messages]
        assert numbers == [*range(partition or 0, RECORDS, PARTITIONS)]
