"""KafkaSource reads a real log.

The log has all codecs, transactions and damaged batches, and connections break.
"""

import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import producer_settings
from headwater.sources.base import Source
from tests.support.connections import breaking
from tests.support.kafka import WAIT_S, KafkaServer
from tests.support.sources import KafkaBench, read, start

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOW = 1_700_000_000_000
RECORDS = 10_000
"""The number of records per partition."""


def values_of(partition: int) -> list[bytes]:
    return [b"%d/%d " % (partition, number) + b"x" * (number % 400) for number in range(RECORDS)]


def fill(bench: KafkaBench) -> None:
    for partition in (0, 1):
        bench.append(partition, values_of(partition))


def take(source: Source, count: int, draw: random.Random) -> dict[int, list[tuple[int, bytes | None]]]:
    """Read at least `count` records, in batches of any size."""
    found: defaultdict[int, list[tuple[int, bytes | None]]] = defaultdict(list)
    deadline = time.monotonic() + 120
    while sum(map(len, found.values())) < count and time.monotonic() < deadline:
        batch = source.poll(draw.choice([1, 7, 2000]), 0.1)
        for partition, offset, value in zip(batch.partitions, batch.offsets, batch.values, strict=True):
            found[partition].append((offset, value))
    return found


def test_no_record_is_lost_while_connections_break(kafka: KafkaServer, kafka_bench: KafkaBench) -> None:
    fill(kafka_bench)
    source, _ = start(kafka_bench)
    with breaking(kafka.port, 0.1, random.Random(5)):
        found = take(source, 2 * RECORDS, random.Random(6))
    assert [found[partition] for partition in (0, 1)] == [[*enumerate(values_of(p))] for p in (0, 1)]


def test_records_fetched_before_a_seek_are_dropped(kafka_bench: KafkaBench) -> None:
    fill(kafka_bench)
    source, _ = start(kafka_bench)
    draw, expected = random.Random(6), [*enumerate(values_of(0))]
    for first in (9_000, 17, 5_000):
        source.poll(draw.randrange(1, 200), 0.1)
        source.seek({0: first})
        found: list[tuple[int, bytes | None]] = []
        while len(found) < 1_000:
            found += take(source, 1, draw)[0]
        assert found[:1_000] == expected[first : first + 1_000]


@pytest.mark.parametrize("stamp", ["CreateTime", "LogAppendTime"])
def test_all_codecs_and_transactions(kafka: KafkaServer, stamp: str) -> None:
    with contextlib.closing(KafkaBench(kafka, {"message.timestamp.type": stamp})) as bench:
        writers, draw = Writers(kafka, bench.topic), random.Random(3)
        producers = [writers.transactional(codec) for codec in CODECS]
        for codec in CODECS:
            writers.write(writers.producer(codec), 40, 1)
        for _ in range(4):
            for producer in producers:
                producer.begin_transaction()
            for _ in range(12):
                writers.write(draw.choice(producers), draw.randrange(1, 30))
            for producer in producers:
                draw.choice([producer.commit_transaction, producer.abort_transaction])(WAIT_S)
        expected = [
            (m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value()) for m in kafka.read_all(bench.topic)
        ]
        assert len(expected) > 300
        source, _ = start(bench)
        found: list[tuple[Any, ...]] = []
        while len(found) < len(expected):
            batch = source.poll(100, 0.1)
            columns = batch.partitions, batch.offsets, batch.timestamps, batch.keys, batch.values
            found += zip(*columns, strict=True)
        assert sorted(found, key=lambda row: row[:2]) == expected


class Writers:
    """Producers of compressible values, with each codec, with and without transactions."""

    def __init__(self, kafka: KafkaServer, topic: str) -> None:
        self._kafka, self._topic, self._draw = kafka, topic, random.Random(7)

    def producer(self, codec: str, **more: Any) -> Producer:
        access = self._kafka.access
        settings = producer_settings(access, ClientErrors(access), 5)
        return Producer(settings | {"compression.type": codec, **more})

    def transactional(self, codec: str) -> Producer:
        identity = {"transactional.id": self._kafka.unique("fetch"), "delivery.timeout.ms": 30_000}
        producer = self.producer(codec, **identity)
        producer.init_transactions(WAIT_S)
        return producer

    def write(self, producer: Producer, count: int, partition: int = 0) -> None:
        """Write records and wait for the acknowledgement.

        The batches of several producers then interleave.
        """
        for _ in range(count):
            value, key = (self._draw.choice([None, b"", b"text" * self._draw.randrange(200)]) for _ in range(2))
            at = NOW + self._draw.randrange(-5000, 5000)
            producer.produce(self._topic, value, key, partition, timestamp=at)
        assert producer.flush(WAIT_S) == 0


@contextlib.contextmanager
def damaged(kafka: KafkaServer, topic: str, partition: int) -> Iterator[None]:
    """Change a byte of the partition's last record on the broker's disk for the block."""
    (segment,) = kafka.data_dir.rglob(f"{topic}-{partition}/*.log")
    place = segment.stat().st_size - 2
    flip(segment, place)
    yield
    flip(segment, place)


def flip(file: Path, place: int) -> None:
    """Flip a bit of a file to which another process may append."""
    with file.open("r+b") as opened:
        opened.seek(place)
        byte = opened.read(1)
        opened.seek(place)
        opened.write(bytes([byte[0] ^ 1]))


def test_an_unreadable_partition_does_not_delay_others(kafka: KafkaServer, kafka_bench: KafkaBench) -> None:
    kafka_bench.append(1, [b"whole"])
    kafka_bench.append(1, [b"damaged"])
    with damaged(kafka, kafka_bench.topic, 1):
        kafka_bench.append(1, [b"behind"])
        source, _ = start(kafka_bench, {0: 0, 1: 1})
        deadline = time.monotonic() + 30
        while not source.unreadable() and time.monotonic() < deadline:
            assert not source.poll(10, 0.1)
        [(partition, why)] = source.unreadable().items()
        assert partition == 1
        assert f"Partition 1 of {kafka_bench.topic} can't be read" in why
        kafka_bench.append(0, [b"more"])
        assert read(source, 1) == [(0, 0, b"more")]
    assert read(source, 2) == [(1, 1, b"damaged"), (1, 2, b"behind")]
    assert not source.unreadable()


def test_closing_does_not_wait_for_a_pending_fetch(kafka_bench: KafkaBench) -> None:
    source, _ = start(kafka_bench)
    assert not source.poll(10, 0.3)
    began = time.monotonic()
    source.close()
    assert time.monotonic() - began < WAIT_S
