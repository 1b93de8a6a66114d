"""Filters and transforms records with confluent-kafka, in hand-written Python.

`python _peer_python.py JOB` runs it.

The program runs in a virtual environment of its own, in which Headwater is not installed. JOB is a JSON object with
the members consumer and producer (librdkafka's settings), source, target, partitions, work, parser ("orjson", which
rounds integers beyond 64 bits, or "json"), redis_url, and set (the key of the set that must contain to_address).
"""

import importlib
import json
import sys
import time
from typing import Any

import redis
from confluent_kafka import Consumer, Producer, TopicPartition

BATCH = 2000
COMMIT_EVERY_S = 1.0


def process(record: dict[str, Any]) -> dict[str, Any]:
    """Does in Python what the benchmark's script does in JavaScript."""
    record["value"] = float(record["raw_amount_str"]) / 10 ** record["token"]["decimals"]
    del record["_created_at"], record["_updated_at"]
    return record


class Work:
    """Filters and transforms batches of values."""

    def __init__(self, job: dict[str, Any]) -> None:
        parser: Any = importlib.import_module(job["parser"])
        self.loads = parser.loads
        self.dumps = parser.dumps if job["parser"] == "orjson" else _compact
        self.filters, self.scripts = "filter" in job["work"], "script" in job["work"]
        self.set = job["set"]
        self.redis: Any = redis.Redis.from_url(job["redis_url"])

    def outputs(self, values: list[bytes]) -> list[bytes]:
        """Return the values to write. One command looks up the whole batch."""
        records = list(map(self.loads, values))
        if self.filters and records:
            hits = self.redis.smismember(self.set, [record["to_address"] for record in records])
            values = [value for value, hit in zip(values, hits, strict=True) if hit]
            records = [record for record, hit in zip(records, hits, strict=True) if hit]
        return [self.dumps(process(record)) for record in records] if self.scripts else values


def _compact(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def run(job: dict[str, Any]) -> None:
    """Process records until the process is killed."""
    consumer, producer, work = Consumer(job["consumer"]), Producer(job["producer"]), Work(job)
    consumer.assign([TopicPartition(job["source"], partition, 0) for partition in job["partitions"]])
    next_commit = time.monotonic() + COMMIT_EVERY_S
    while True:
        for value in work.outputs([message.value() or b"" for message in consumer.consume(BATCH, 0.1)]):
            send(producer, job["target"], value)
        producer.poll(0)
        if time.monotonic() >= next_commit:
            producer.flush()
            consumer.commit(asynchronous=True)
            next_commit = time.monotonic() + COMMIT_EVERY_S


def send(producer: Producer, target: str, value: bytes) -> None:
    """Produce one value; wait while the producer's queue is full."""
    while True:
        try:
            producer.produce(target, value)
            return
        except BufferError:
            producer.poll(0.05)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
