"""Remembers records that Kafka rejected permanently.

When such a record is read again, it goes to the dead-letter topic and is not sent again.
"""

from collections.abc import Sequence

from headwater.model.record import Failure, RecordBatch, SourceIds, position_ids
from headwater.sinks.base import Rejection, Sink
from headwater.sinks.outputs import output_ids

ERROR = "RefusedByKafka"
"""The error class of the dead letters of these records."""


class RejectedRecords:
    """The records that Kafka has rejected and whose offsets are not committed yet.

    A record is identified by its topic and its output id (`sinks.outputs.output_ids`). A suspect is a record of a batch
    that Kafka has rejected without naming the record that is at fault.
    """

    def __init__(self, source_ids: SourceIds = position_ids) -> None:
        self._source_ids = source_ids
        self._reasons: dict[tuple[str, bytes], str] = {}
        self._suspects: set[tuple[str, bytes]] = set()
        self._delivered: set[tuple[str, bytes]] = set()
        """The rejected records and suspects that were delivered since the last commit."""

    def __bool__(self) -> bool:
        return bool(self._reasons or self._suspects)

    @property
    def one_record_per_batch(self) -> bool:
        """Whether each record must have its own batch, so that Kafka names the record at fault.

        True while there are suspects.
        """
        return bool(self._suspects)

    def add(self, rejections: Sequence[Rejection]) -> list[str]:
        """Remember the rejections of a producer. Return their reasons."""
        for rejection in rejections:
            record = rejection.topic, rejection.output_id
            if rejection.scope == "record":
                self._reasons[record] = rejection.reason
            elif rejection.scope == "batch":
                self._suspects.add(record)
        if rejections:
            self._delivered.clear()
        return [rejection.reason for rejection in rejections]

    def failures_of(self, batch: RecordBatch, sink: Sink) -> list[Failure]:
        """Return a failure for each row of a batch that Kafka has rejected from this sink."""
        ids = output_ids(batch, self._source_ids)
        reasons = [self.reason(sink.topic, output_id) for output_id in ids]
        return [Failure(row, ERROR, reason, sink.name) for row, reason in enumerate(reasons) if reason is not None]

    def reason(self, topic: str, output_id: bytes) -> str | None:
        """Return why Kafka rejected a record; None when it has not, or may accept the record now."""
        record = topic, output_id
        reason = self._reasons.get(record)
        if reason is not None or record in self._suspects:
            self._delivered.add(record)
        return reason

    def committed(self) -> None:
        """Forget the records since the last commit, whose offsets are committed now."""
        for record in self._delivered:
            self._reasons.pop(record, None)
            self._suspects.discard(record)
        self._delivered.clear()

    def clear(self) -> None:
        """Forget all records.

        The next owner of their partitions finds out again which ones Kafka rejects.
        """
        self._reasons.clear()
        self._suspects.clear()
        self._delivered.clear()
