"""Delivers batches and commits positions: the protocol, and at-least-once delivery.

All sinks of a worker share one producer. After Kafka has rejected a record, the worker reads again from the last
commit. exactly_once.py implements exactly-once delivery.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from headwater.engine.pipeline import InFlightBatch
from headwater.engine.rejected_records import RejectedRecords
from headwater.model.record import Failure, Int64Column, RecordBatch, RowIndexes, SourceIds, position_ids
from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.native import BytesColumn, HeaderColumn
from headwater.sinks.base import OutputWriter, Producer, Sink
from headwater.sinks.outputs import (
    CONFIG_HEADER,
    SOURCE_HEADER,
    OutputBatch,
    output_id_column,
    output_timestamps,
    size_error,
)
from headwater.sources.base import Positions, Source

MAX_MESSAGE_BYTES = 1024
"""The maximum size of a header of a dead letter, such as `headwater-message`."""
UNLIMITED = 1 << 30
_TOO_LARGE = "record too large for the dead-letter topic"
_REFUSED = "record refused by Kafka for the dead-letter topic"


class DeadLetters:
    """Writes the source records of failed records to the dead-letter topic, unchanged."""

    def __init__(self, topic: str, revision: int, source_ids: SourceIds = position_ids) -> None:
        self._topic = topic
        self._source_ids = source_ids
        self._revision = b"%d" % revision

    def send(self, in_flight: InFlightBatch, producer: OutputWriter, rejected: RejectedRecords) -> None:
        """Queue one dead letter for each failed record of the batch."""
        if not in_flight.failed_records:
            return
        rows = in_flight.source_rows()
        letters = replace(
            in_flight.input.take(
                RowIndexes("i", [rows[each.partition, each.offset] for each in in_flight.failed_records])
            ),
            indexes=Int64Column("q", [each.output_index for each in in_flight.failed_records]),
        )
        ids = output_id_column(letters, self._source_ids)
        headers = [
            *_headers([each.failure for each in in_flight.failed_records]),
            HeaderColumn(CONFIG_HEADER, BytesColumn.of([self._revision] * len(letters))),
            HeaderColumn(SOURCE_HEADER, ids),
        ]
        times = output_timestamps(letters.timestamps)
        outputs = OutputBatch(self._topic, letters.values, letters.keys, letters.partitions, times, headers)
        producer.produce(self._with_stubs(outputs, rejected))

    def _with_stubs(self, outputs: OutputBatch, rejected: RejectedRecords) -> OutputBatch:
        """Return the records with a stub in place of each record that the topic can't take."""
        if not rejected and outputs.values.max_size + outputs.keys.max_size <= MAX_OUTPUT_BYTES:
            return outputs
        values, keys = [*outputs.values], [*outputs.keys]
        for row, (value, key) in enumerate(zip(values, keys, strict=True)):
            headers = outputs.headers_of(row)
            is_rejected = rejected.reason(self._topic, dict(headers)[SOURCE_HEADER]) is not None
            if is_rejected or size_error(value, key, headers) is not None:
                values[row] = stub = _stub(value or b"", key, _REFUSED if is_rejected else _TOO_LARGE)
                keys[row] = None if is_rejected or size_error(stub, key, headers) is not None else key
        return replace(outputs, values=BytesColumn.of(values), keys=BytesColumn.of(keys))


def _stub(value: bytes, key: bytes | None, reason: str) -> bytes:
    """Return the value of a dead letter that replaces a record which the topic can't take."""
    stub = {
        "headwater": reason,
        "sha256": hashlib.sha256(value).hexdigest(),
        "bytes": len(value),
        "key_bytes": len(key or b""),
    }
    return json.dumps(stub).encode()


def _headers(failures: Sequence[Failure]) -> list[HeaderColumn]:
    columns: dict[str, Sequence[str | int | None]] = {
        "headwater-error": [failure.error for failure in failures],
        "headwater-message": [failure.message for failure in failures],
        "headwater-transform": [failure.transform for failure in failures],
        "headwater-line": [failure.line for failure in failures],
        "headwater-column": [failure.column for failure in failures],
        "headwater-attempts": [failure.attempts for failure in failures],
    }
    return [HeaderColumn(name, BytesColumn.of(map(_text, values))) for name, values in columns.items()]


def _text(value: str | int | None) -> bytes | None:
    """Return a header's value in UTF-8, cut between characters to at most MAX_MESSAGE_BYTES."""
    if value is None:
        return None
    data = str(value).encode(errors="replace")
    return data if len(data) <= MAX_MESSAGE_BYTES else data[:MAX_MESSAGE_BYTES].decode(errors="ignore").encode()


def queue_batch(
    in_flight: InFlightBatch,
    sinks: Sequence[Sink],
    dead_letters: DeadLetters,
    producer: OutputWriter,
    rejected: RejectedRecords,
) -> tuple[int, list[Failure]]:
    """Queue the output of a finished batch for every sink, and its dead letters.

    rejected: records that Kafka is known to reject; they are not queued and count as failures of the sink.

    Returns how many records were queued, counted once per sink, and the failures of the others.
    """
    in_flight.exclude_dropped()
    failures: list[Failure] = []
    if in_flight.output:
        for sink in sinks:
            failures += _send(in_flight.output, sink, producer, rejected)
    in_flight.add_failures(failures)
    dead_letters.send(in_flight, producer, rejected)
    return len(in_flight.output) * len(sinks) - len(failures), failures


def _send(batch: RecordBatch, sink: Sink, producer: OutputWriter, rejected: RejectedRecords) -> list[Failure]:
    failures = rejected.failures_of(batch, sink) if rejected else []
    if not failures:
        return sink.send(batch, producer)
    rejected_rows = {failure.row for failure in failures}
    rows = RowIndexes("i", [row for row in range(len(batch)) if row not in rejected_rows])
    return failures + [failure._replace(row=rows[failure.row]) for failure in sink.send(batch.take(rows), producer)]


class Delivery(Protocol):
    """Delivers batches to Kafka and commits positions.

    Batches are delivered in order. When `flush` returns 0 and `failures` is empty, all delivered records are
    acknowledged; then the worker calls `commit` with the positions after these records.

    Attributes:
        checkpoint_s: How many seconds after a commit the next commit is due.
    """

    checkpoint_s: float

    def connect(self, timeout_s: float) -> None:
        """Return when Kafka answers and has all topics. Raises BrokerUnavailable."""

    def begin(self, timeout_s: float) -> None:
        """Prepare delivery.

        Called once, after the previous worker of this slot has ended, before any record is read. Raises
        BrokerUnavailable: call it again.
        """

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        """Queue a finished batch; see `queue_batch` for the result. Never waits."""

    def send_lingering(self) -> None:
        """Send lingering records now, because the source has no more records.

        Returns within a few milliseconds.
        """

    def capacity(self) -> int:
        """Return how many records may be read before the next commit. At 0 a commit is due."""

    def is_queue_full(self) -> bool:
        """Return whether the producer's queue is full. Then do not call `deliver`."""

    def flush(self, timeout_s: float) -> int:
        """Wait for acknowledgements. Return how many records are not acknowledged yet."""

    def outstanding(self) -> int:
        """Return how many delivered records are not acknowledged or not committed yet. Never waits."""

    def failures(self) -> list[str]:
        """Return why Kafka rejected records since the last call, a sentence each.

        After a rejection, no record that was delivered since the last commit may be committed: call `recover`.
        """

    def commit(self, source: Source, positions: Positions, *, wait: bool) -> None:
        """Start to commit positions.

        With no positions, retry those that could not be committed before.

        wait: whether the positions must be committed when `end_commit` returns True; otherwise the commit may still be
        running then.

        Raises BrokerUnavailable or SetStoreUnavailable when the positions are not committed yet.
        """

    def end_commit(self, *, wait: bool) -> bool:
        """Return False while a commit is running.

        The worker may then read and transform, but not deliver.

        wait: whether to wait for the end of the commit.
        Raises DeliveryFailed when it is unknown whether the records and positions are stored; then call `recover`.
        """

    def recover(self, source: Source) -> Positions:
        """Discard all records that are not committed, and continue with a new producer.

        Returns the committed positions if a commit whose answer was lost may have changed them, else {}.
        Raises BrokerUnavailable: call it again.
        """

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop the uncommitted records of lost partitions, as far as that is possible."""

    def close(self) -> None:
        """Close the producer. The next worker reads the records again that are not committed."""


class AtLeastOnce:
    """Implements Delivery: sends records without a transaction, and then commits positions.

    A commit waits for the acknowledgements.

    producer_factory: creates a producer; its argument is `one_record_per_batch`, see KafkaProducer.
    """

    checkpoint_s = 1.0

    def __init__(
        self,
        sinks: Sequence[Sink],
        dead_letters: DeadLetters,
        producer_factory: Callable[[bool], Producer],
        source_ids: SourceIds = position_ids,
    ) -> None:
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._create_producer = producer_factory
        self._rejected = RejectedRecords(source_ids)
        self._one_record_per_batch = False
        self._producer = producer_factory(False)

    def connect(self, timeout_s: float) -> None:
        self._producer.connect(timeout_s)

    def begin(self, timeout_s: float) -> None:
        """Nothing to do."""

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        return queue_batch(in_flight, self._sinks, self._dead_letters, self._producer, self._rejected)

    def send_lingering(self) -> None:
        self._producer.send_lingering()

    def capacity(self) -> int:
        return UNLIMITED

    def is_queue_full(self) -> bool:
        return self._producer.is_queue_full()

    def flush(self, timeout_s: float) -> int:
        return self._producer.flush(timeout_s)

    def outstanding(self) -> int:
        return self._producer.outstanding()

    def failures(self) -> list[str]:
        return self._rejected.add(self._producer.failures())

    def commit(self, source: Source, positions: Positions, *, wait: bool) -> None:
        source.commit(positions, wait=wait)
        if positions:
            self._rejected.committed()
        if self._one_record_per_batch and not self._rejected.one_record_per_batch:
            self._replace_producer()

    def end_commit(self, *, wait: bool) -> bool:  # noqa: ARG002 - `commit` has already handed the positions over
        return True

    def _replace_producer(self) -> None:
        self._producer.close()
        self._one_record_per_batch = self._rejected.one_record_per_batch
        self._producer = self._create_producer(self._one_record_per_batch)

    def recover(self, source: Source) -> Positions:  # noqa: ARG002 - the worker's OffsetTracker knows the positions
        self._replace_producer()
        return {}

    def forget(self, partitions: Iterable[int]) -> None:  # noqa: ARG002 - the next owner detects rejected records
        """Leave queued records in the producer; the next owner delivers these records again."""
        self._rejected.clear()

    def close(self) -> None:
        self._producer.close()
