"""Response bodies of a trial."""

from typing import Any, Literal, Self

import msgspec
from pydantic import BaseModel, Field

from headwater.api.schemas import Fault
from headwater.model.record import Failure
from headwater.model.trial import Step, Trial, Tried


class RecordError(BaseModel):
    """Why a record could not be processed, as the headers of a dead letter tell."""

    error: str = Field(description="The error's class.")
    message: str
    line: int | None
    column: int | None
    attempts: int

    @classmethod
    def of(cls, failure: Failure) -> Self:
        """The body for a failure."""
        members = ("error", "message", "line", "column", "attempts")
        return cls(**{name: getattr(failure, name) for name in members})


class TriedStep(BaseModel):
    """What one transform did."""

    type: str
    received: int = Field(
        description="Records that it got: one for a sample, more behind a script that returned several."
    )
    dropped: int
    errors: list[RecordError]
    outputs: list[Any] = Field(description="The records that go on, in order.")
    logs: list[str] = Field(description="Lines of `console.log`.")


class TriedRecord(BaseModel):
    """What became of one sample."""

    outcome: Literal["sent", "dropped", "error", "unfinished"] = Field(
        description="`sent` when any output reaches the sinks; `unfinished` when it took too long or is too large."
    )
    reason: str = Field(description="Why it is unfinished; else empty.")
    outputs: list[Any] = Field(description="What every sink gets.")
    steps: list[TriedStep] = Field(description="One per transform, up to the last one that got a record.")


class TrialBody(BaseModel):
    """A configuration that create would accept, and what it does to samples."""

    warnings: list[Fault] = Field(description="What the scripts threw on the stream's example record.")
    records: list[TriedRecord] = Field(description="In the order of the request.")

    @classmethod
    def of(cls, trial: Trial) -> dict[str, Any]:
        """The body for a trial, for msgspec: records are the JSON text that they are."""
        return {
            "warnings": [{"pointer": w.pointer, "detail": w.detail} for w in trial.warnings],
            "records": [_tried(record) for record in trial.records],
        }


def _tried(record: Tried) -> dict[str, Any]:
    return {
        "outcome": record.outcome,
        "reason": record.unfinished,
        "outputs": _raw(record.outputs),
        "steps": [_step(step) for step in record.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "type": step.type,
        "received": step.received,
        "dropped": step.dropped,
        "errors": [RecordError.of(failure).model_dump() for failure in step.failures],
        "outputs": _raw(step.outputs),
        "logs": step.logs,
    }


def _raw(records: list[bytes]) -> list[msgspec.Raw]:
    return [msgspec.Raw(record) for record in records]
