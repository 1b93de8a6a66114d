"""Records that Kafka refuses for good: read again, they become dead letters in place of being sent once more."""

from collections.abc import Sequence

from headwater.model.record import Failure, RecordBatch, SourceNames, position_names
from headwater.sinks.base import Refusal, Sink, source_ids

ERROR = "RefusedByKafka"


class Refusals:
    """What Kafka refused, until positions behind it are stored. names: of the source's records."""

    def __init__(self, names: SourceNames = position_names) -> None:
        self._names = names
        self._reasons: dict[tuple[str, bytes], str] = {}
        self._suspects: set[tuple[str, bytes]] = set()
        self._met: set[tuple[str, bytes]] = set()

    def __bool__(self) -> bool:
        return bool(self._reasons or self._suspects)

    @property
    def is_single(self) -> bool:
        """Whether a producer should send each record in a batch of its own: Kafka has refused batches of which it did
        not say which record is to blame, and it was not found out yet.
        """
        return bool(self._suspects)

    def note(self, refusals: Sequence[Refusal]) -> list[str]:
        """Take what a producer could not write; the reasons, in sentences."""
        for refusal in refusals:
            record = refusal.topic, refusal.source
            if refusal.scope == "record":
                self._reasons[record] = refusal.reason
            elif refusal.scope == "batch":
                self._suspects.add(record)
        if refusals:
            self._met.clear()
        return [refusal.reason for refusal in refusals]

    def of(self, batch: RecordBatch, sink: Sink) -> list[Failure]:
        """The rows of a batch that Kafka refused to take from this sink."""
        ids = source_ids(batch, self._names)
        reasons = [self.reason(sink.topic, source) for source in ids]
        return [Failure(row, ERROR, reason, sink.name) for row, reason in enumerate(reasons) if reason is not None]

    def reason(self, topic: str, source: bytes) -> str | None:
        """Why Kafka refused the record that is made of a source record; None when it did not, or may take it."""
        record = topic, source
        reason = self._reasons.get(record)
        if reason is not None or record in self._suspects:
            self._met.add(record)
        return reason

    def committed(self) -> None:
        """All records that were delivered are behind the stored positions."""
        for record in self._met:
            self._reasons.pop(record, None)
            self._suspects.discard(record)
        self._met.clear()

    def clear(self) -> None:
        """Forget everything: records are another worker's, which finds out by itself."""
        self._reasons.clear()
        self._suspects.clear()
        self._met.clear()
