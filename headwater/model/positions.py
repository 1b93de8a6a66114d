"""Stored positions of deployments, requests to rewind, and gaps.

While a pipeline has no workers, the database holds its positions, because Kafka removes the committed offsets of a
consumer group some time after its last member has left.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

RewindTarget = str | dict[int, int]
"""Where to rewind to: "earliest", "latest", an RFC 3339 time, or an offset for each of some partitions."""


class OffsetGap(BaseModel):
    """Offsets of a partition whose records retention removed while the pipeline was paused.

    Attributes:
        partition: The partition.
        start: The first removed offset.
        end: The offset after the last removed offset, at which the pipeline continues.
    """

    model_config = ConfigDict(frozen=True)

    partition: int
    start: int
    end: int


class GroupPositions(BaseModel):
    """The positions of a consumer group on the topic that it reads.

    Attributes:
        topic: The name of the topic.
        topic_id: The id of the topic; empty when the cluster has no topic ids.
        offsets: By partition: the offset of the next record to read.
        gaps: The offsets before `offsets` that retention has removed since the pause.
        rewound: The partitions that were rewound. Their positions are committed even where the committed offset is
            later, and the metrics count their records again. In the database, the name is `recounted`.
        is_restore_deferred: True when a resume could not commit these positions to Kafka and started the workers
            anyway, because their revision reads another source. The positions are committed when a revision reads this
            source again. In the database, the name is `is_kept`.
    """

    model_config = ConfigDict(frozen=True, validate_by_name=True, serialize_by_alias=True)

    topic: str
    topic_id: str
    offsets: Mapping[int, int]
    gaps: tuple[OffsetGap, ...] = ()
    rewound: frozenset[int] = Field(default=frozenset(), validation_alias="recounted", serialization_alias="recounted")
    is_restore_deferred: bool = Field(default=False, validation_alias="is_kept", serialization_alias="is_kept")


class StoredPositions(BaseModel):
    """The positions of a deployment without workers.

    They are empty while the committed offsets in Kafka are the only positions. Positions whose restore is deferred stay
    stored while the workers run.

    Attributes:
        groups: The positions by source epoch, which is the number at the end of the consumer group's name.
    """

    model_config = ConfigDict(frozen=True)

    groups: Mapping[int, GroupPositions] = Field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.groups)

    def needs_restore_before(self, epoch: int) -> bool:
        """Whether stored positions must be restored before workers read with this epoch.

        Stored positions of this epoch must always be restored, and stored positions of another epoch unless their
        restore is deferred.
        """
        return epoch in self.groups or not all(group.is_restore_deferred for group in self.groups.values())


class Move(BaseModel):
    """The position of a partition before and after a rewind.

    Attributes:
        before: The position before the rewind; None when the partition had none.
        after: The position after the rewind.
    """

    model_config = ConfigDict(frozen=True)

    before: int | None
    after: int


class Rewind(BaseModel):
    """The last request to rewind a deployment, and its result.

    Attributes:
        generation: The generation of the deployment that the request has set. It identifies the request.
        to: Where to rewind to.
        requested_at: When the rewind was requested.
        state: Whether the request is pending, was carried out, or has failed.
        moves: The positions by partition, when the rewind was carried out. Empty for a source without offsets.
        error: Why the rewind has failed. The positions are then unchanged.
        is_answered: Whether a client has got the result.
    """

    model_config = ConfigDict(frozen=True)

    generation: int
    to: RewindTarget
    requested_at: datetime
    state: Literal["pending", "done", "failed"] = "pending"
    moves: Mapping[int, Move] = Field(default_factory=dict)
    error: str = ""
    is_answered: bool = False

    @property
    def is_pending(self) -> bool:
        """Whether the rewind has neither been carried out nor failed yet."""
        return self.state == "pending"


def gaps_after_rewind(gaps: tuple[OffsetGap, ...], to: RewindTarget) -> tuple[OffsetGap, ...]:
    """Return the gaps of the partitions that a rewind does not move."""
    return () if isinstance(to, str) else tuple(gap for gap in gaps if gap.partition not in to)


OFFSET_GAPS = TypeAdapter(tuple[OffsetGap, ...])
