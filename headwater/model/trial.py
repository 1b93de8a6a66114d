"""Trials, in which a configuration processes sample records without being saved."""

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
        type: The type of the transform.
        received: The number of records that the transform received.
        dropped: The number of records that the transform dropped.
        outputs: The records that the transform passes on, as JSON text.
        failures: The records that the transform could not process.
        logs: The lines that a script wrote with `console.log`.
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
        outcome: "sent" when an output reaches the sinks, "error" when none does and a step failed, "dropped" when none
            does and no step failed, "unfinished" when the processing stopped before the last transform.
        outputs: The records that reach the sinks, as JSON text.
        steps: The results of the transforms, in order.
        unfinished_reason: Why the processing stopped before the last transform; empty when it did not.
    """

    outcome: Literal["sent", "dropped", "error", "unfinished"]
    outputs: list[bytes] = field(default_factory=list)
    steps: list[TrialStep] = field(default_factory=list)
    unfinished_reason: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial: the warnings for the configuration, and the result of each sample."""

    warnings: list[Fault]
    records: list[TrialRecord]
