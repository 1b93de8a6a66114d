"""Remembers records that Kafka rejected permanently.

When the source record of such a record is read again, it goes to the dead-letter topic instead.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from headwater.model.record import Failure, RecordBatch, SourceIds, position_ids
from headwater.sinks.base import ProducerFailure, Sink
from headwater.sinks.outputs import output_ids

ERROR = "RefusedByKafka"
"""The error class of the dead letters of rejected records. Users select dead letters by this name."""


class _RejectedRecord(NamedTuple):
    """The known facts about a rejected record.

    Attributes:
        source_partition: The partition of its source record; None when it is not known.
        reason: Why Kafka rejected it; None for a suspect.
    """

    source_partition: int | None
    reason: str | None


class RejectedRecords:
    """The records that Kafka has rejected and whose offsets are not committed yet.

    A record is identified by its topic and its output id (`sinks.outputs.output_ids`). When Kafka rejects a whole
    batch, the error does not tell which of its records is invalid: all of them are suspects. Suspects are sent again
    with one record in each batch, so that the next rejection identifies the record.
    """

    def __init__(self, source_ids: SourceIds = position_ids) -> None:
        self._source_ids = source_ids
        self._records: dict[tuple[str, bytes], _RejectedRecord] = {}
        self._produced: set[tuple[str, bytes]] = set()
        """The records in `_records` whose batches were produced again since the last commit."""

    def __bool__(self) -> bool:
        return bool(self._records)

    @property
    def need_one_record_per_batch(self) -> bool:
        """Whether there are suspects, so that each record must be sent in its own batch."""
        return any(record.reason is None for record in self._records.values())

    def add(self, failures: Sequence[ProducerFailure]) -> list[str]:
        """Remember the records that Kafka rejected. Return the reasons of all failures."""
        for failure in failures:
            if failure.cause != "other":
                reason = failure.reason if failure.cause == "record" else None
                record = _RejectedRecord(failure.source_partition, reason)
                self._records[failure.topic, failure.output_id] = record
        if failures:
            self._produced.clear()
        return [failure.reason for failure in failures]

    def failures_of(self, batch: RecordBatch, sink: Sink) -> list[Failure]:
        """Return a failure for each row of a batch that Kafka has rejected from this sink."""
        reasons = [self.reason(sink.topic, output_id) for output_id in output_ids(batch, self._source_ids)]
        return [Failure(row, ERROR, reason, sink.name) for row, reason in enumerate(reasons) if reason is not None]

    def reason(self, topic: str, output_id: bytes) -> str | None:
        """Return why Kafka rejected a record; None when the record is valid or only a suspect."""
        record = self._records.get((topic, output_id))
        return record and record.reason

    def on_produced(self, batch: RecordBatch, topic: str) -> None:
        """Take note that a batch was produced to a topic, perhaps without its rejected records.

        `on_committed` then forgets the rejected records and suspects of this batch."""
        if self._records:
            keys = {(topic, output_id) for output_id in output_ids(batch, self._source_ids)}
            self._produced |= self._records.keys() & keys

    def on_committed(self) -> None:
        """Forget the rejected records whose batches were produced again before this commit."""
        for key in self._produced:
            self._records.pop(key, None)
        self._produced.clear()

    def remove_partitions(self, partitions: Collection[int]) -> None:
        """Forget the records whose source records are from these partitions.

        The next worker of the partitions finds out again which records Kafka rejects.
        """
        self._records = {
            key: record for key, record in self._records.items() if record.source_partition not in partitions
        }
        self._produced &= self._records.keys()
