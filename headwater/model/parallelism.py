"""The number of workers of a pipeline: fixed, or following the load between bounds."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

MAX_PARALLELISM = 64

NUMBER_TAG, BOUNDS_TAG = "a number of workers", "bounds of the number of workers"
PARALLELISM_TAGS = frozenset({NUMBER_TAG, BOUNDS_TAG})
"""The tags of Parallelism, which pydantic inserts into the location of an error."""


class WorkerBounds(BaseModel):
    """The bounds between which the number of workers follows the load."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    min: int = Field(ge=1, le=MAX_PARALLELISM, description="The least number of workers.")
    max: int = Field(ge=1, le=MAX_PARALLELISM, description="The greatest number of workers, at least `min`.")

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(
                f"must have a min that is not greater than its max; lower min ({self.min}) or raise max ({self.max})"
            )
        return self


def _tag(value: Any) -> str | None:
    if isinstance(value, dict | WorkerBounds):
        return BOUNDS_TAG
    return NUMBER_TAG if isinstance(value, int) and not isinstance(value, bool) else None


Parallelism = Annotated[
    Annotated[int, Field(ge=1, le=MAX_PARALLELISM), Tag(NUMBER_TAG)] | Annotated[WorkerBounds, Tag(BOUNDS_TAG)],
    Discriminator(
        _tag,
        custom_error_type="parallelism",
        custom_error_message=f"Input should be a number of workers from 1 to {MAX_PARALLELISM}, or bounds such as "
        '{"min": 1, "max": 8}',
    ),
]
"""A number of workers, or the bounds between which the number follows the load."""


class MeasuredCapacity(BaseModel):
    """The measured capacity of a worker.

    It is measured when the number of workers is raised because the workers fall behind or are busy most of the time.

    Attributes:
        records_per_s: The records per second of each worker.
        measured_at: The time of the measurement.
        revision: The revision that the workers ran.
    """

    model_config = ConfigDict(frozen=True)

    records_per_s: float
    measured_at: datetime
    revision: int


class Scaling(BaseModel):
    """The number of workers that the controller has chosen for a pipeline with bounds.

    It is stored with the deployment, so the next controller continues with it.

    Attributes:
        workers: The number of workers.
        reason: Why the number was changed last, in sentences.
        changed_at: When it was changed last.
        capacity: The last measured capacity of a worker; None when it was never measured.
        partitions: The number of partitions of the source when the number was changed last; None when it is no limit.
    """

    model_config = ConfigDict(frozen=True)

    workers: int
    reason: str
    changed_at: datetime
    capacity: MeasuredCapacity | None = None
    partitions: int | None = None

    def workers_within(self, bounds: WorkerBounds) -> int:
        """Return the number of workers of a pipeline that has these bounds now.

        It is the nearest number within the bounds, but not above the number of partitions: further workers would have
        nothing to read.
        """
        usable = bounds.max if self.partitions is None else max(1, self.partitions)
        return min(max(bounds.min, min(self.workers, bounds.max)), usable)
