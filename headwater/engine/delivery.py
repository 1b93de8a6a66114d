"""Delivery of batches to sinks and dead letters, and of positions to the group; here at least once.

All share one producer; what it refused is sent again by reading again. exactly_once.py has the other way.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from headwater.engine.chain import Flight, Rejected
from headwater.model.record import Failure, Headers, RecordBatch, SourceNames, position_names
from headwater.sinks.base import (
    CONFIG_HEADER,
    SOURCE_HEADER,
    Outputs,
    Producer,
    Sink,
    Writer,
    oversize,
    times_to_write,
)
from headwater.sources.base import Positions, Source

MAX_MESSAGE_BYTES = 1024
ANY_NUMBER = 1 << 30


class DeadLetters:
    """Writes records that could not be processed to the dead-letter topic: the source record's own bytes."""

    def __init__(self, topic: str, revision: int, names: SourceNames = position_names) -> None:
        self._topic = topic
        self._names = names
        self._revision = b"%d" % revision

    def send(self, flight: Flight, producer: Writer) -> None:
        """Queue one dead letter per rejected record of the batch."""
        if not flight.rejected:
            return
        rows, source = flight.source_rows(), flight.source
        names = self._names(source)
        for rejected in flight.rejected:
            row = rows[rejected.partition, rejected.offset]
            self._send(source, row, rejected, b"%b/%d" % (names[row], rejected.output), producer)

    def _send(self, source: RecordBatch, row: int, rejected: Rejected, origin: bytes, producer: Writer) -> None:
        headers = [*_headers(rejected.failure), (CONFIG_HEADER, self._revision)]
        value, key, all_headers = source.values[row], source.keys[row], [*headers, (SOURCE_HEADER, origin)]
        if oversize(value, key, all_headers) is not None:
            value = _stub(value or b"", key)
            key = None if oversize(value, key, all_headers) is not None else key
        times = times_to_write(source.timestamps[row : row + 1])
        producer.produce(Outputs.of(self._topic, [value], [key], [rejected.partition], times, [origin], headers))


def _stub(value: bytes, key: bytes | None) -> bytes:
    """What stands for a record that is too large for the dead-letter topic."""
    stub = {
        "headwater": "record too large for the dead-letter topic",
        "sha256": hashlib.sha256(value).hexdigest(),
        "bytes": len(value),
        "key_bytes": len(key or b""),
    }
    return json.dumps(stub).encode()


def _headers(failure: Failure) -> Headers:
    texts = {
        "headwater-error": failure.error,
        "headwater-message": failure.message,
        "headwater-transform": failure.transform,
        "headwater-line": failure.line,
        "headwater-column": failure.column,
        "headwater-attempts": failure.attempts,
    }
    return [(name, _text(value)) for name, value in texts.items() if value is not None]


def _text(value: str | int) -> bytes:
    """UTF-8 of at most MAX_MESSAGE_BYTES, cut between characters."""
    data = str(value).encode(errors="replace")
    return data if len(data) <= MAX_MESSAGE_BYTES else data[:MAX_MESSAGE_BYTES].decode(errors="ignore").encode()


def write(
    flight: Flight, sinks: Sequence[Sink], dead_letters: DeadLetters, producer: Writer
) -> tuple[int, list[Failure]]:
    """Queue a finished batch for every sink, and its dead letters.

    Returns the records queued, counted once per sink, and those that a sink could not take.
    """
    flight.settle()
    refused: list[Failure] = []
    if flight.kept:
        for sink in sinks:
            refused += sink.send(flight.kept, producer)
    flight.reject(refused)
    dead_letters.send(flight, producer)
    return len(flight.kept) * len(sinks) - len(refused), refused


class Delivery(Protocol):
    """How batches and positions get to Kafka. checkpoint_s: how long after a commit the next one is due.

    Batches are delivered in order. All is acknowledged when `unacknowledged` is 0 and `failures` is empty; then
    `commit` is called with the positions behind all that was delivered.
    """

    checkpoint_s: float

    def connect(self, timeout_s: float) -> None:
        """Return when Kafka answers and has all topics. Raises BrokerUnavailable."""

    def begin(self, timeout_s: float) -> None:
        """Called when the worker before this one in its slot has ended, before any record is read.

        Raises BrokerUnavailable: call it again.
        """

    def deliver(self, flight: Flight) -> tuple[int, list[Failure]]:
        """See `write`. Never waits."""

    def push(self) -> None:
        """Send at once what waits for company: nothing else is there. Returns within a few ms."""

    def room(self) -> int:
        """How many records may be read before the next commit; with none, it is due."""

    def saturated(self) -> bool:
        """True while the producer's queue is full: deliver no further batch."""

    def unacknowledged(self, timeout_s: float) -> int:
        """Wait for acknowledgements; how many records still have none."""

    def outstanding(self) -> int:
        """How many records no reader can have yet. Never waits."""

    def failures(self) -> list[str]:
        """What Kafka refused since the last call; then nothing delivered since the last commit may be committed."""

    def commit(self, source: Source, positions: Positions, *, wait: bool) -> None:
        """Store positions; none: those that could not be stored before. wait: return when they are stored.

        Raises BrokerUnavailable, SetStoreUnavailable when they are not stored yet. Raises DeliveryFailed when neither
        the records nor the positions may count as stored: recover.
        """

    def recover(self, source: Source) -> Positions:
        """After a failure: throw away what is not committed, and go on with a new producer.

        Returns the positions that are stored, where they may have moved without an answer. Raises BrokerUnavailable:
        call it again.
        """

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are not ours any more: what of them is not committed must not be, as far as it goes."""

    def close(self) -> None:
        """Free the producer. What is not committed is read again by the next worker."""


class AtLeastOnce:
    """Implements Delivery: records are sent as they come, and positions committed after their acknowledgement."""

    checkpoint_s = 1.0

    def __init__(
        self, sinks: Sequence[Sink], dead_letters: DeadLetters, producer_factory: Callable[[], Producer]
    ) -> None:
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._make = producer_factory
        self._producer = producer_factory()

    def connect(self, timeout_s: float) -> None:
        self._producer.connect(timeout_s)

    def begin(self, timeout_s: float) -> None:
        """Nothing to do."""

    def deliver(self, flight: Flight) -> tuple[int, list[Failure]]:
        return write(flight, self._sinks, self._dead_letters, self._producer)

    def push(self) -> None:
        self._producer.push()

    def room(self) -> int:
        return ANY_NUMBER

    def saturated(self) -> bool:
        return self._producer.saturated()

    def unacknowledged(self, timeout_s: float) -> int:
        return self._producer.flush(timeout_s)

    def outstanding(self) -> int:
        return self._producer.outstanding()

    def failures(self) -> list[str]:
        return self._producer.failures()

    def commit(self, source: Source, positions: Positions, *, wait: bool) -> None:
        source.commit(positions, wait=wait)

    def recover(self, source: Source) -> Positions:  # noqa: ARG002 - the ledger knows the positions
        self._producer.close()
        self._producer = self._make()
        return {}

    def forget(self, partitions: Iterable[int]) -> None:
        """Nothing to do: they are on their way, and come again from the partitions' next owner."""

    def close(self) -> None:
        self._producer.close()
