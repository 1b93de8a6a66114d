"""How a worker reads its partitions after workers were killed for memory.

The worker may isolate its partitions: it reads each one without the others. The partition that it reads when it is
killed is the one whose records need too much memory. This partition is quarantined: its worker only tries to read it
alone once an hour, until the worker survives such a read, or the committed position has changed. The quarantine also
ends when the worker loses the partition.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field


class PartitionPosition(NamedTuple):
    """A partition of the source, and the committed position in it: the next offset to read."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the position with this string form, `partition@offset`. Raises ValueError."""
        partition, _, offset = text.partition("@")
        return cls(int(partition), int(offset))


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """How a worker reads its partitions.

    Attributes:
        isolates_partitions: Whether the worker first reads its partitions one at a time, each without the others.
        quarantined: Partitions that the worker only reads alone, once an hour, while their committed position is the
            given one.
    """

    isolates_partitions: bool = False
    quarantined: tuple[PartitionPosition, ...] = ()


READ_ALL = ReadingPlan()
"""The plan to read all partitions at the same time."""


class IsolationStatus(BaseModel):
    """The progress of a worker that follows another ReadingPlan than READ_ALL.

    Attributes:
        isolated: The only partition that the worker reads now, with its committed position; None when it reads several.
        is_over: Whether all partitions that had to be isolated were read.
        quarantined: The partitions that the worker only reads alone, once an hour, each with the committed position at
            which it was quarantined.
    """

    model_config = ConfigDict(frozen=True)

    isolated: PartitionPosition | None = None
    is_over: bool = False
    quarantined: list[PartitionPosition] = Field(default_factory=list)
