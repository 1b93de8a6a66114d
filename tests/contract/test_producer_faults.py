"""The producer while its connections are cut, whatever is on its way: each record once, in order."""

import contextlib
import itertools
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from headwater.sinks.base import Outputs
from headwater.sinks.kafka_producer import KafkaProducer
from tests.support.kafka import KafkaServer

RECORDS, PER_CALL, PARTITIONS = 12_000, 200, 3
NOW = 1_700_000_000_000


def cut(stop: threading.Event, draw: random.Random, port: int) -> None:
    """Reset connections of this process to a port again and again, whatever is on its way."""
    while not stop.wait(draw.random() / 4):
        for connection in connections_to(port):
            connection.shutdown(socket.SHUT_RDWR)


def connections_to(port: int) -> Iterator[socket.socket]:
    """This process's connections to a port, by descriptors of their own."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if entry.readlink().name.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(entry.name))) as connection:
                    if connection.family == socket.AF_INET and connection.getpeername()[1] == port:
                        yield connection


def test_connections_that_break_all_the_time(kafka: KafkaServer) -> None:
    topic = kafka.create_topic(kafka.unique("cut"), PARTITIONS)
    producer, stop, draw = KafkaProducer(kafka.access, [topic]), threading.Event(), random.Random(5)
    port = int(kafka.access.bootstrap_servers.rpartition(":")[2])
    cutter = threading.Thread(target=cut, args=(stop, draw, port))
    cutter.start()
    try:
        for first in range(0, RECORDS, PER_CALL):
            rows = range(first, first + PER_CALL)
            values = [b"%d" % row + b"x" * (row % 300) for row in rows]
            producer.produce(
                Outputs.of(topic, values, [None] * PER_CALL, [row % PARTITIONS for row in rows], [NOW] * PER_CALL)
            )
            if not first % 2000:
                producer.flush(0.02)
        deadline = time.monotonic() + 60
        while producer.flush(0.1) and time.monotonic() < deadline:
            pass
    finally:
        stop.set()
        cutter.join()
    assert producer.flush(60) == 0
    assert producer.failures() == []
    producer.close()
    found = kafka.consume(topic, RECORDS)
    assert sum(kafka.end_offsets(topic).values()) == RECORDS
    for partition, messages in itertools.groupby(found, key=lambda message: message.partition()):
        numbers = [int((message.value() or b"").rstrip(b"x")) for message in messages]
        assert numbers == [*range(partition or 0, RECORDS, PARTITIONS)]
