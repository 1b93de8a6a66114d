"""Records in flight: a batch is a set of columns, so that hot loops touch lists and bytes only."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

Headers = list[tuple[str, bytes]]


@dataclass(slots=True)
class RecordBatch:
    """Records of one source topic, in the order in which they were read. All columns have the same length.

    values: the record's bytes; None is a Kafka tombstone. keys: the input key, kept on the output.
    timestamps: the broker's, in ms since the epoch. partitions, offsets: the source position.
    indexes: the output's number under its source record (0 when the source record has one output).
    """

    topic: str
    values: list[bytes | None]
    keys: list[bytes | None]
    timestamps: list[int]
    partitions: list[int]
    offsets: list[int]
    indexes: list[int]

    @classmethod
    def empty(cls, topic: str) -> "RecordBatch":
        """A batch without records."""
        return cls(topic, [], [], [], [], [], [])

    def __len__(self) -> int:
        return len(self.values)

    def select(self, keep: Sequence[bool]) -> "RecordBatch":
        """The rows whose entry in `keep` is true, in order."""
        return RecordBatch(
            self.topic,
            list(compress(self.values, keep)),
            list(compress(self.keys, keep)),
            list(compress(self.timestamps, keep)),
            list(compress(self.partitions, keep)),
            list(compress(self.offsets, keep)),
            list(compress(self.indexes, keep)),
        )

    def without(self, partitions: Collection[int]) -> "RecordBatch":
        """The rows of other partitions than these."""
        return self.select([partition not in partitions for partition in self.partitions])

    def split(self, count: int) -> "tuple[RecordBatch, RecordBatch]":
        """The first `count` rows, and the others."""
        first, rest = slice(None, count), slice(count, None)
        return self._rows(first), self._rows(rest)

    def _rows(self, rows: slice) -> "RecordBatch":
        return RecordBatch(
            self.topic,
            self.values[rows],
            self.keys[rows],
            self.timestamps[rows],
            self.partitions[rows],
            self.offsets[rows],
            self.indexes[rows],
        )


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
