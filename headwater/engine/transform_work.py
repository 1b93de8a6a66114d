"""The work of a transform on one batch, for its metrics."""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from headwater.model.record import Int64Column, RecordBatch, RowIndexes, TransformResult, take_int64

PositionPredicate = Callable[[int, int], bool]
"""Returns whether the record at a partition and an offset is selected."""


class RecordPositions(NamedTuple):
    """The positions of records, as columns.

    The columns are shared with the batch of the records.
    """

    partitions: Int64Column
    offsets: Int64Column

    @classmethod
    def of(cls, batch: RecordBatch) -> "RecordPositions":
        """Return the positions of the source records of a batch."""
        return cls(batch.partitions, batch.offsets)

    def take(self, rows: RowIndexes) -> "RecordPositions":
        """Return the positions of the given rows."""
        return RecordPositions(take_int64(self.partitions, rows), take_int64(self.offsets, rows))

    def filter(self, predicate: PositionPredicate) -> "RecordPositions":
        """Return the positions that the predicate selects."""
        selected = [predicate(*position) for position in zip(self.partitions, self.offsets, strict=True)]
        return RecordPositions(
            Int64Column("q", compress(self.partitions, selected)), Int64Column("q", compress(self.offsets, selected))
        )


class TransformWork(NamedTuple):
    """The work of one transform on one batch.

    Attributes:
        uid: The uid of the transform.
        received: The records that the transform received.
        sent: The output records.
        with_output: The received records that have at least one output.
        failed: The partition and the offset of each received record that the transform could not process.
        took_s: How long after the start of the transform its result was available.
    """

    uid: str
    received: RecordPositions
    sent: RecordPositions
    with_output: RecordPositions
    failed: Sequence[tuple[int, int]]
    took_s: float

    @classmethod
    def of(cls, uid: str, batch: RecordBatch, result: TransformResult, took_s: float) -> "TransformWork":
        """Return the work of a transform that has received `batch`."""
        received, sent = RecordPositions.of(batch), RecordPositions.of(result.output)
        with_output = sent if result.source_rows is None else received.take(_distinct(result.source_rows))
        failed = [(batch.partitions[failure.row], batch.offsets[failure.row]) for failure in result.failures]
        return cls(uid, received, sent, with_output, failed, took_s)

    @property
    def record_count(self) -> int:
        """The number of records that the transform received."""
        return len(self.received.partitions)

    def filter(self, predicate: PositionPredicate) -> "TransformWork":
        """Return the work on the records that the predicate selects."""
        sent = self.sent.filter(predicate)
        return self._replace(
            received=self.received.filter(predicate),
            sent=sent,
            with_output=sent if self.with_output is self.sent else self.with_output.filter(predicate),
            failed=[position for position in self.failed if predicate(*position)],
        )


def _distinct(rows: RowIndexes) -> RowIndexes:
    return RowIndexes("i", np.unique(np.frombuffer(rows, np.int32)).tobytes())
