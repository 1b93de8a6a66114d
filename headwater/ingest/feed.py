"""Writes records to a stream's topic."""

import itertools
import time
import zlib
from collections.abc import Callable, Iterable

from headwater.errors import BrokerUnavailable, SetupError
from headwater.model.natural_key import KeyOf
from headwater.sinks.base import Producer

CHECK_EVERY = 500
"""Records between two looks at the producer's queue and at the clock; at most a tenth of a second's worth."""
FLUSH_WITHIN_S = 60.0
ROOM_WITHIN_S = 0.05


def partition_of(key: bytes, partitions: int) -> int:
    """CRC-32 of the key modulo the number of partitions: what librdkafka's `consistent` partitioner does."""
    return zlib.crc32(key) % partitions


def feed(
    lines: Iterable[bytes],
    key_of: KeyOf,
    topic: str,
    partitions: int,
    producer: Producer,
    *,
    rate: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Write all lines, at most `rate` a second (0: no limit); returns how many, all acknowledged.

    Lines without a key go round the partitions. Raises BrokerUnavailable when some were not acknowledged, and
    SetupError when the lines end with one: those before it are then written, and it says how many.
    """
    started, sent, turns = clock(), 0, itertools.cycle(range(partitions))
    check_every = max(1, min(CHECK_EVERY, int(rate / 10))) if rate else CHECK_EVERY
    try:
        for line in lines:
            key = key_of(line)
            partition = next(turns) if key is None else partition_of(key, partitions)
            producer.append(topic, line, key, partition)
            sent += 1
            if sent % check_every == 0:
                make_room(producer)
                if rate:
                    producer.push()
                    sleep(max(0.0, sent / rate - (clock() - started)))
    except SetupError as error:
        settle(producer, sent)
        raise SetupError(f"{error.detail} The {sent} records before it are written.") from error
    settle(producer, sent)
    return sent


def settle(producer: Producer, sent: int) -> None:
    """Wait until all records are acknowledged. Raises BrokerUnavailable when some are not."""
    left = producer.flush(FLUSH_WITHIN_S)
    failures = producer.failures()
    if left or failures:
        why = failures[0].reason if failures else f"Kafka gave no answer within {FLUSH_WITHIN_S:.0f} s."
        raise BrokerUnavailable(f"{left + len(failures)} of {sent} records were not stored: {why}")


def make_room(producer: Producer) -> None:
    """Wait while the producer's queue is full."""
    while producer.saturated():
        producer.flush(ROOM_WITHIN_S)
