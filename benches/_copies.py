"""Copies a topic with confluent-kafka alone, as a baseline for the pipelines.

`python -m benches._copies …` runs it.

Two processes share the partitions. Once a second each process waits for all delivery reports and commits its offsets.
The kind "bare" writes only values and reads with librdkafka's default settings and larger fetches. The kind "tuned"
reads with a worker's consumer settings instead. The kind "headers" is "tuned", and also writes what a worker writes:
key, timestamp, partition and one header.
"""

import sys
import time
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings, consumer_settings
from headwater.model.access import KafkaAccess

BATCH = 2000
FLUSH_EVERY_S = 1.0


PRODUCER: dict[str, Any] = {
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 262_144,
    "acks": "all",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 262_144,
}
CONSUMER: dict[str, Any] = {
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 65_536,
    "fetch.message.max.bytes": 4 << 20,
}
"""Settings that programs commonly use."""
MANUAL_COMMIT = {"enable.auto.commit": False, "auto.offset.reset": "error"}


def copy(access: KafkaAccess, source: str, target: str, partitions: list[int], kind: str) -> None:
    """Copy records from source to target until the process is killed."""
    errors = ClientErrors(access)
    group = f"copies-{target}"
    bare = admin_settings(access, errors) | CONSUMER | MANUAL_COMMIT | {"group.id": group}
    consumer = Consumer(bare if kind == "bare" else consumer_settings(access, errors, group))
    producer = Producer(admin_settings(access, errors) | PRODUCER)
    consumer.assign([TopicPartition(source, partition, 0) for partition in partitions])
    next_flush = time.monotonic() + FLUSH_EVERY_S
    while True:
        for message in consumer.consume(BATCH, 0.1):
            fields = fields_of_worker_record(message, source) if kind == "headers" else {"value": message.value()}
            while True:
                try:
                    producer.produce(target, **fields)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
        if time.monotonic() >= next_flush:
            producer.flush()
            consumer.commit(asynchronous=True)
            next_flush = time.monotonic() + FLUSH_EVERY_S


def fields_of_worker_record(message: Message, source: str) -> dict[str, Any]:
    """Return the arguments of `produce` for a record that carries all that a worker writes."""
    origin = f"{source}/{message.partition()}/{message.offset()}/0".encode()
    return {
        "value": message.value(),
        "key": message.key(),
        "partition": message.partition(),
        "timestamp": message.timestamp()[1],
        "headers": [("headwater-src", origin)],
    }


def command(access: KafkaAccess, source: str, target: str, partitions: list[int], kind: str) -> list[str]:
    """Return the command line of one copying process."""
    numbers = ",".join(map(str, partitions))
    return [sys.executable, "-m", "benches._copies", access.model_dump_json(), source, target, numbers, kind]


if __name__ == "__main__":
    _, access, source, target, numbers, kind = sys.argv
    partitions = [int(number) for number in numbers.split(",")]
    copy(KafkaAccess.model_validate_json(access), source, target, partitions, kind)
