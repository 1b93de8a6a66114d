"""Writes records to a stream's topic for a replay.

A price import also calls the functions that wait for the producer.
"""

import itertools
import time
from collections.abc import Callable, Iterable

from headwater.errors import BrokerUnavailable, SetupError
from headwater.ingest.partitioner import partition_of
from headwater.model.natural_key import KeyOf
from headwater.sinks.base import Producer

CHECK_EVERY = 500
"""The number of records between two checks of the producer's queue.

With a rate, the queue and the clock are checked at least ten times a second; at a rate below ten records a second,
after each record.
"""
FLUSH_WITHIN_S = 60.0
QUEUE_POLL_S = 0.05


def write_lines(
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
    """Write all lines, at most `rate` per second (0: no limit), and return their number.

    Lines without a key are distributed round-robin. Raises BrokerUnavailable when Kafka did not acknowledge all
    records. If reading a line raises SetupError, the lines before it are flushed, and the error is raised again with
    the number of these lines.
    """
    started, sent, round_robin = clock(), 0, itertools.cycle(range(partitions))
    check_every = max(1, min(CHECK_EVERY, int(rate / 10))) if rate else CHECK_EVERY
    try:
        for line in lines:
            key = key_of(line)
            partition = next(round_robin) if key is None else partition_of(key, partitions)
            producer.append(topic, line, key, partition)
            sent += 1
            if sent % check_every == 0:
                wait_for_queue_space(producer)
                if rate:
                    producer.flush(0)
                    sleep(max(0.0, sent / rate - (clock() - started)))
    except SetupError as error:
        flush_or_raise(producer, sent)
        raise SetupError(f"{error.detail} The {sent} records before it are written.") from error
    flush_or_raise(producer, sent)
    return sent


def flush_or_raise(producer: Producer, sent: int) -> None:
    """Wait until all records are acknowledged.

    Raises BrokerUnavailable when a record was not stored, or was not acknowledged within FLUSH_WITHIN_S.
    """
    unacknowledged = producer.flush(FLUSH_WITHIN_S)
    failures = producer.take_failures()
    if unacknowledged or failures:
        why = failures[0].reason if failures else f"Kafka did not acknowledge them within {FLUSH_WITHIN_S:.0f} s."
        raise BrokerUnavailable(f"{unacknowledged + len(failures)} of {sent} records were not stored: {why}")


def wait_for_queue_space(producer: Producer) -> None:
    """Wait while the producer's queue is full."""
    while producer.is_queue_full():
        producer.flush(QUEUE_POLL_S)
