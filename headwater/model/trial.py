"""Trials: a configuration is run on sample records, without being saved."""

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from headwater.errors import Fault
from headwater.model.flow import NewFlow
from headwater.model.record import Failure

MAX_SAMPLES = 100
MAX_SAMPLE_BYTES = 1 << 20


class NewTrial(NewFlow):
    """A request for a trial: a configuration, and sample records."""

    records: list[Any] = Field(
        default_factory=list,
        max_length=MAX_SAMPLES,
        description=f"Sample records, as JSON values; together at most {MAX_SAMPLE_BYTES >> 20} MiB.",
    )


@dataclass(frozen=True, slots=True)
class TrialStep:
    """The result of one transform for a sample.

    Attributes:
        received: The number of records that the transform received.
        outputs: The records that it passes on, as JSON text.
    """

    type: str
    received: int
    dropped: int
    outputs: list[bytes]
    failures: list[Failure]
    logs: list[str]


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """The result of one sample.

    Attributes:
        outcome: "sent" when an output reaches the sinks, otherwise "error" when a step failed.
        unfinished: Why processing stopped before the last transform; empty when it did not.
    """

    outcome: Literal["sent", "dropped", "error", "unfinished"]
    outputs: list[bytes] = field(default_factory=list)
    steps: list[TrialStep] = field(default_factory=list)
    unfinished: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial: the warnings for the configuration, and the result of each sample."""

    warnings: list[Fault]
    records: list[TrialRecord]
