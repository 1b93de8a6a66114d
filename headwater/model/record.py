"""Batches of records.

A batch stores its records as columns, so that hot loops touch arrays and bytes only.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

import numpy as np

from headwater.native import BytesColumn, Column

Headers = list[tuple[str, bytes]]
"""The headers of a record, as (name, value)."""
NO_HEADERS: Headers = []
Int64Column = Column
"""A column of signed 64-bit integers (array type code "q")."""
RowIndexes = Column
"""A column of 32-bit row indexes (array type code "i"). The first row of a batch is row 0."""


def take_int64(column: Int64Column, rows: RowIndexes) -> Int64Column:
    """Return the values of a column at these rows."""
    return Int64Column("q", np.frombuffer(column, np.int64)[np.frombuffer(rows, np.int32)].tobytes())


def find_runs(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> tuple[list[int], list[int]]:
    """Find the runs of equal values: the value of each run, and the row after its last row.

    Columns of partitions and timestamps have long runs.
    """
    if not len(numbers):
        return [], []
    last_rows = np.append(np.flatnonzero(numbers[1:] != numbers[:-1]), len(numbers) - 1)
    return numbers[last_rows].tolist(), (last_rows + 1).tolist()


def count_values(column: Int64Column) -> Counter[int]:
    """Return how often each value occurs in a column."""
    values, ends = find_runs(np.frombuffer(column, np.int64))
    counts = Counter[int]()
    for value, start, end in zip(values, [0, *ends], ends, strict=False):
        counts[value] += end - start
    return counts


@dataclass(slots=True)
class RecordBatch:
    """Records of one source topic in the order of their reading, or outputs of such records.

    All columns have the same length. Columns are immutable, because batches share them.

    Attributes:
        topic: The name of the source topic.
        values: The bytes of each record; None is a Kafka tombstone.
        keys: The key of each record. An output record has the key of its source record.
        timestamps: The timestamps of the source records, in ms since the epoch.
        partitions: The partitions of the source records.
        offsets: The offsets of the source records.
        indexes: The output index of each record (model/outputs.py), which tells the outputs of one source record apart.
            It is not a position: later outputs have a hash. It is 0 for a record that is not split.
        may_have_bigint_marks: Whether a script wrote the values for another script. BigInts in the values then carry
            a mark (see sandbox/bigint_marks.py), and each value is JSON in one line.
        end_positions: By partition, the position to commit after this batch, if it is not directly after the last
            record. That is so when control records (markers of transactions), or letters that a redrive does not
            select, follow the record. Only a batch that the source has just returned has entries.
    """

    topic: str
    values: BytesColumn
    keys: BytesColumn
    timestamps: Int64Column
    partitions: Int64Column
    offsets: Int64Column
    indexes: Int64Column
    may_have_bigint_marks: bool = field(default=False, kw_only=True)
    end_positions: dict[int, int] = field(default_factory=dict, kw_only=True)

    @classmethod
    def of(
        cls,
        topic: str,
        values: Iterable[bytes | None],
        keys: Iterable[bytes | None],
        timestamps: Iterable[int],
        partitions: Iterable[int],
        offsets: Iterable[int],
        indexes: Iterable[int],
    ) -> "RecordBatch":
        """Return a batch with these values in its columns."""
        integers = (Int64Column("q", column) for column in (timestamps, partitions, offsets, indexes))
        return cls(topic, BytesColumn.of(values), BytesColumn.of(keys), *integers)

    @classmethod
    def empty(cls, topic: str) -> "RecordBatch":
        """Return a batch without records."""
        return cls.of(topic, (), (), (), (), (), ())

    def __len__(self) -> int:
        return len(self.values)

    def select(self, keep: Iterable[object]) -> "RecordBatch":
        """Return the rows for which the mask `keep` has a true entry, in order."""
        rows = RowIndexes("i", compress(range(len(self)), keep))
        return self if len(rows) == len(self) else self.take(rows)

    def last_offsets(self) -> dict[int, int]:
        """Return the offset of the last record of each partition."""
        if not self:  # an idle worker polls many empty batches, and NumPy's calls would cost CPU time for each
            return {}
        partitions, ends = find_runs(np.frombuffer(self.partitions, np.int64))
        return {partition: self.offsets[end - 1] for partition, end in zip(partitions, ends, strict=True)}

    def first_offsets(self) -> dict[int, int]:
        """Return the offset of the first record of each partition."""
        partitions, ends = find_runs(np.frombuffer(self.partitions, np.int64))
        first_offsets = dict[int, int]()
        for partition, start in zip(partitions, [0, *ends], strict=False):
            first_offsets.setdefault(partition, self.offsets[start])
        return first_offsets

    def without(self, partitions: Collection[int]) -> "RecordBatch":
        """Return the rows that are not from these partitions."""
        return self.select(partition not in partitions for partition in self.partitions)

    def take(self, rows: RowIndexes) -> "RecordBatch":
        """Return the given rows, in the given order."""
        integers = (self.timestamps, self.partitions, self.offsets, self.indexes)
        return RecordBatch(
            self.topic,
            self.values.select_rows(rows),
            self.keys.select_rows(rows),
            *(take_int64(column, rows) for column in integers),
            may_have_bigint_marks=self.may_have_bigint_marks,
        )


class SourceRecord(NamedTuple):
    """One record of a source topic."""

    value: bytes | None
    key: bytes | None
    timestamp: int
    partition: int
    offset: int


def batch_from_records(topic: str, records: Sequence[SourceRecord]) -> RecordBatch:
    """Return a batch of these records."""
    values, keys, times, partitions, offsets = zip(*records, strict=True) if records else ((), (), (), (), ())
    return RecordBatch.of(topic, values, keys, times, partitions, offsets, [0] * len(records))


SourceIds = Callable[[RecordBatch], list[bytes]]
"""A function that returns for each row the id of its source record. An id is unique among all records of a stream."""


def position_ids(batch: RecordBatch) -> list[bytes]:
    """Return ids of the form `topic/partition/offset`.

    This function is the SourceIds of a Kafka topic.
    """
    prefixes = {partition: f"{batch.topic}/{partition}/".encode() for partition in set(batch.partitions)}
    return [b"%b%d" % (prefixes[p], offset) for p, offset in zip(batch.partitions, batch.offsets, strict=True)]


class Failure(NamedTuple):
    """A record that a transform or a sink could not process, and why.

    The record becomes a dead letter.

    Attributes:
        row: The row of the record in the input of the transform or sink.
        error: The class of the error, for example "TypeError", "Timeout" or "InvalidJSON".
        message: The message of the error.
        component: The uid of the transform, or the name of the sink.
        line: The line in the script, from 1; None without a position in a script.
        column: The column in that line, from 1.
        attempts: How often a script tried to process the record, when its process died or it exceeded a limit; else 1.
    """

    row: int
    error: str
    message: str
    component: str
    line: int | None = None
    column: int | None = None
    attempts: int = 1


@dataclass(slots=True)
class TransformResult:
    """The result of a transform for a batch.

    Attributes:
        output: The records for the next transform or the sinks.
        failures: The records of the input that the transform could not process.
        logs: Lines that scripts wrote with `console.log`.
        source_rows: The row of the input from which each output was made. None when no record has several outputs: the
            partition and offset of an output then identify its source record.
    """

    output: RecordBatch
    failures: list[Failure] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    source_rows: RowIndexes | None = None
