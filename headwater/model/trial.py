"""Trying a configuration on sample records, without saving it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from headwater.errors import Problem
from headwater.model.flow import NewFlow
from headwater.model.record import Failure

MAX_SAMPLES = 100
MAX_SAMPLE_BYTES = 1 << 20


class NewTrial(NewFlow):
    """A configuration as it is sent to create it, and records to try it on."""

    records: list[Any] = Field(
        default_factory=list,
        max_length=MAX_SAMPLES,
        description=f"JSON values as they would stand on the stream, at most {MAX_SAMPLE_BYTES >> 20} MiB in all.",
    )


@dataclass(frozen=True, slots=True)
class Step:
    """What one transform made of what the ones before it made of a sample. outputs: records as JSON text."""

    type: str
    received: int
    dropped: int
    outputs: list[bytes]
    failures: list[Failure]
    logs: list[str]


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one sample: "sent" when any output reaches the sinks, else "error" when any step failed.

    unfinished: why the steps end before the last transform.
    """

    outcome: Literal["sent", "dropped", "error", "unfinished"]
    outputs: list[bytes] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    unfinished: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration that would be accepted, its warnings, and what became of each sample."""

    warnings: list[Problem]
    records: list[Tried]
