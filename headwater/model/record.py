"""Records in flight: a batch is a set of columns, so that hot loops touch arrays and bytes only."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

import numpy as np

from headwater.native import Column, Texts

Headers = list[tuple[str, bytes]]
Numbers = Column
"""A column "q": integers of 64 bits."""
Rows = Column
"""A column "i": numbers of rows."""


def numbers_at(column: Numbers, rows: Rows) -> Numbers:
    """The numbers of some rows."""
    return Numbers("q", np.frombuffer(column, np.int64)[np.frombuffer(rows, np.int32)].tobytes())


def runs(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> tuple[list[int], list[int]]:
    """Equal numbers in a row, as partitions and times come: the number of each run, and the row behind its last one."""
    last_rows = np.append(np.flatnonzero(numbers[1:] != numbers[:-1]), len(numbers) - 1)[: len(numbers)]
    return numbers[last_rows].tolist(), (last_rows + 1).tolist()


def occurrences(column: Numbers) -> Counter[int]:
    """How often each number is there."""
    found, ends = runs(np.frombuffer(column, np.int64))
    told = Counter[int]()
    for number, start, end in zip(found, [0, *ends], ends, strict=False):
        told[number] += end - start
    return told


@dataclass(slots=True)
class RecordBatch:
    """Records of one source topic, in the order in which they were read. All columns have the same length; no column
    is changed, for batches share them.

    values: the record's bytes; None is a Kafka tombstone. keys: the input key, kept on the output.
    timestamps: the broker's, in ms since the epoch. partitions, offsets: the source position.
    indexes: the output's number under its source record (0 when the source record has one output).
    for_script: a script wrote the values for a script further down the chain, see sandbox/marks.py.
    ends: of a batch as it was read: by partition, where reading goes on behind control records that follow the batch.
    """

    topic: str
    values: Texts
    keys: Texts
    timestamps: Numbers
    partitions: Numbers
    offsets: Numbers
    indexes: Numbers
    for_script: bool = field(default=False, kw_only=True)
    ends: dict[int, int] = field(default_factory=dict, kw_only=True)

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
        """From any columns."""
        numbers = (Numbers("q", column) for column in (timestamps, partitions, offsets, indexes))
        return cls(topic, Texts.of(values), Texts.of(keys), *numbers)

    @classmethod
    def empty(cls, topic: str) -> "RecordBatch":
        """A batch without records."""
        return cls.of(topic, (), (), (), (), (), ())

    def __len__(self) -> int:
        return len(self.values)

    def select(self, keep: Iterable[object]) -> "RecordBatch":
        """The rows whose entry in `keep` is true, in order."""
        rows = Rows("i", compress(range(len(self)), keep))
        return self if len(rows) == len(self) else self.take(rows)

    def last_offsets(self) -> dict[int, int]:
        """The offset of each partition's last record."""
        partitions = np.frombuffer(self.partitions, np.int64)
        ends = np.append(np.flatnonzero(partitions[1:] != partitions[:-1]), len(partitions) - 1).tolist()
        return {self.partitions[row]: self.offsets[row] for row in ends} if len(self) else {}

    def first_offsets(self) -> dict[int, int]:
        """The offset of each partition's first record."""
        partitions = np.frombuffer(self.partitions, np.int64)
        starts = (np.flatnonzero(partitions[1:] != partitions[:-1])[::-1] + 1).tolist()
        return {self.partitions[row]: self.offsets[row] for row in [*starts, 0]} if len(self) else {}

    def without(self, partitions: Collection[int]) -> "RecordBatch":
        """The rows of other partitions than these."""
        return self.select(partition not in partitions for partition in self.partitions)

    def take(self, rows: Rows) -> "RecordBatch":
        """Some rows, by their numbers."""
        numbers = (self.timestamps, self.partitions, self.offsets, self.indexes)
        return RecordBatch(
            self.topic,
            self.values.take(rows),
            self.keys.take(rows),
            *(numbers_at(column, rows) for column in numbers),
            for_script=self.for_script,
        )


class Row(NamedTuple):
    """A record as it is read."""

    value: bytes | None
    key: bytes | None
    timestamp: int
    partition: int
    offset: int


def batch_of(topic: str, rows: Sequence[Row]) -> RecordBatch:
    """Rows as columns."""
    values, keys, times, partitions, offsets = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return RecordBatch.of(topic, values, keys, times, partitions, offsets, [0] * len(rows))


SourceNames = Callable[[RecordBatch], list[bytes]]
"""What the source record of each row is called: no other record of its stream has or had that name."""


def position_names(batch: RecordBatch) -> list[bytes]:
    """SourceNames of a topic with partitions and offsets."""
    prefixes = {partition: f"{batch.topic}/{partition}/".encode() for partition in set(batch.partitions)}
    return [b"%b%d" % (prefixes[p], offset) for p, offset in zip(batch.partitions, batch.offsets, strict=True)]


class Failure(NamedTuple):
    """One record that a transform or sink could not process; it goes to the dead-letter topic.

    row is the row in the batch that the step was given. error is the class of the error ("TypeError", "Timeout",
    "InvalidJSON"…), transform the uid of the transform or the name of the sink. Lines and columns count from 1.
    """

    row: int
    error: str
    message: str
    transform: str
    line: int | None = None
    column: int | None = None
    attempts: int = 1


@dataclass(slots=True)
class Outcome:
    """What a transform made of a batch: the records that go on, and the failures by row of its input."""

    kept: RecordBatch
    failures: list[Failure] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
