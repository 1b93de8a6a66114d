"""Delivery of batches to sinks and dead letters, and of positions to the group; here at least once.

All share one producer; what it refused is sent again by reading again. exactly_once.py has the other way.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from headwater.engine.chain import InFlightBatch
from headwater.engine.refusals import Refusals
from headwater.model.record import Failure, Numbers, RecordBatch, Rows, SourceNames, position_names
from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.native import Header, Texts
from headwater.sinks.base import (
    CONFIG_HEADER,
    SOURCE_HEADER,
    Outputs,
    Producer,
    Sink,
    Writer,
    oversize,
    source_column,
    times_to_write,
)
from headwater.sources.base import Positions, Source

MAX_MESSAGE_BYTES = 1024
ANY_NUMBER = 1 << 30
_TOO_LARGE = "record too large for the dead-letter topic"
_REFUSED = "record refused by Kafka for the dead-letter topic"


class DeadLetters:
    """Writes records that could not be processed to the dead-letter topic: the source record's own bytes."""

    def __init__(self, topic: str, revision: int, names: SourceNames = position_names) -> None:
        self._topic = topic
        self._names = names
        self._revision = b"%d" % revision

    def send(self, in_flight: InFlightBatch, producer: Writer, refusals: Refusals) -> None:
        """Queue one dead letter per rejected record of the batch."""
        if not in_flight.rejected:
            return
        rows = in_flight.source_rows()
        letters = replace(
            in_flight.source.take(Rows("i", [rows[each.partition, each.offset] for each in in_flight.rejected])),
            indexes=Numbers("q", [each.output for each in in_flight.rejected]),
        )
        sources = source_column(letters, self._names)
        headers = [
            *_headers([each.failure for each in in_flight.rejected]),
            Header(CONFIG_HEADER, Texts.of([self._revision] * len(letters))),
            Header(SOURCE_HEADER, sources),
        ]
        times = times_to_write(letters.timestamps)
        outputs = Outputs(self._topic, letters.values, letters.keys, letters.partitions, times, headers)
        producer.produce(self._fitting(outputs, refusals))

    def _fitting(self, outputs: Outputs, refusals: Refusals) -> Outputs:
        """With a stub in place of each record that the topic can't take."""
        if not refusals and outputs.values.largest + outputs.keys.largest <= MAX_OUTPUT_BYTES:
            return outputs
        values, keys = [*outputs.values], [*outputs.keys]
        for row, (value, key) in enumerate(zip(values, keys, strict=True)):
            headers = outputs.headers_of(row)
            refused = refusals.reason(self._topic, dict(headers)[SOURCE_HEADER]) is not None
            if refused or oversize(value, key, headers) is not None:
                values[row] = stub = _stub(value or b"", key, _REFUSED if refused else _TOO_LARGE)
                keys[row] = None if refused or oversize(stub, key, headers) is not None else key
        return replace(outputs, values=Texts.of(values), keys=Texts.of(keys))


def _stub(value: bytes, key: bytes | None, why: str) -> bytes:
    """The value of a dead letter whose record the topic can't take."""
    stub = {
        "headwater": why,
        "sha256": hashlib.sha256(value).hexdigest(),
        "bytes": len(value),
        "key_bytes": len(key or b""),
    }
    return json.dumps(stub).encode()


def _headers(failures: Sequence[Failure]) -> list[Header]:
    members: dict[str, Sequence[str | int | None]] = {
        "headwater-error": [failure.error for failure in failures],
        "headwater-message": [failure.message for failure in failures],
        "headwater-transform": [failure.transform for failure in failures],
        "headwater-line": [failure.line for failure in failures],
        "headwater-column": [failure.column for failure in failures],
        "headwater-attempts": [failure.attempts for failure in failures],
    }
    return [Header(name, Texts.of(map(_text, values))) for name, values in members.items()]


def _text(value: str | int | None) -> bytes | None:
    """UTF-8 of at most MAX_MESSAGE_BYTES, cut between characters."""
    if value is None:
        return None
    data = str(value).encode(errors="replace")
    return data if len(data) <= MAX_MESSAGE_BYTES else data[:MAX_MESSAGE_BYTES].decode(errors="ignore").encode()


def write(
    in_flight: InFlightBatch, sinks: Sequence[Sink], dead_letters: DeadLetters, producer: Writer, refusals: Refusals
) -> tuple[int, list[Failure]]:
    """Queue a finished batch for every sink, and its dead letters. refusals: records that Kafka does not take.

    Returns the records queued, counted once per sink, and those that a sink or Kafka could not take.
    """
    in_flight.settle()
    failures: list[Failure] = []
    if in_flight.kept:
        for sink in sinks:
            failures += _send(in_flight.kept, sink, producer, refusals)
    in_flight.reject(failures)
    dead_letters.send(in_flight, producer, refusals)
    return len(in_flight.kept) * len(sinks) - len(failures), failures


def _send(batch: RecordBatch, sink: Sink, producer: Writer, refusals: Refusals) -> list[Failure]:
    refused = refusals.of(batch, sink) if refusals else []
    if not refused:
        return sink.send(batch, producer)
    gone = {failure.row for failure in refused}
    rows = Rows("i", [row for row in range(len(batch)) if row not in gone])
    return refused + [failure._replace(row=rows[failure.row]) for failure in sink.send(batch.take(rows), producer)]


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

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
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
        """Begin to commit positions; without any, try again what could not be committed before.

        With wait, they are committed when `end_commit` has returned True; without, they may still be on their way then.
        Raises BrokerUnavailable, SetStoreUnavailable when they are not stored yet.
        """

    def end_commit(self, *, wait: bool) -> bool:
        """False while a commit goes on: deliver nothing then, but read and transform. wait: for its end.

        Raises DeliveryFailed when neither the records nor the positions may count as stored: recover.
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
    """Implements Delivery: records are sent as they come, and positions committed after their acknowledgement.

    producer_factory: makes producers; `is_single` is for one that sends each record in a batch of its own. names: of
    the source's records.
    """

    checkpoint_s = 1.0

    def __init__(
        self,
        sinks: Sequence[Sink],
        dead_letters: DeadLetters,
        producer_factory: Callable[[bool], Producer],
        names: SourceNames = position_names,
    ) -> None:
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._make = producer_factory
        self._refusals = Refusals(names)
        self._is_single = False
        self._producer = producer_factory(False)

    def connect(self, timeout_s: float) -> None:
        self._producer.connect(timeout_s)

    def begin(self, timeout_s: float) -> None:
        """Nothing to do."""

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        return write(in_flight, self._sinks, self._dead_letters, self._producer, self._refusals)

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
        return self._refusals.note(self._producer.failures())

    def commit(self, source: Source, positions: Positions, *, wait: bool) -> None:
        source.commit(positions, wait=wait)
        if positions:
            self._refusals.committed()
        if self._is_single and not self._refusals.is_single:
            self._renew()

    def end_commit(self, *, wait: bool) -> bool:  # noqa: ARG002 - nothing goes on beside the worker
        return True

    def _renew(self) -> None:
        self._producer.close()
        self._is_single = self._refusals.is_single
        self._producer = self._make(self._is_single)

    def recover(self, source: Source) -> Positions:  # noqa: ARG002 - the offsets knows the positions
        self._renew()
        return {}

    def forget(self, partitions: Iterable[int]) -> None:  # noqa: ARG002 - what is refused is found out again
        """What is on its way comes again from the partitions' next owner."""
        self._refusals.clear()

    def close(self) -> None:
        self._producer.close()
