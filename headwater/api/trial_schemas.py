"""The response body of a trial."""

from typing import Any, Literal, Self

import msgspec
from pydantic import BaseModel, Field

from headwater.api.schemas import Fault
from headwater.model.record import Failure
from headwater.model.trial import Trial, TrialRecord, TrialStep


class RecordError(BaseModel):
    """Why a record could not be processed, as in the headers of a dead letter."""

    error: str = Field(description="The name of the error's class.")
    message: str
    line: int | None
    column: int | None
    attempts: int

    @classmethod
    def of(cls, failure: Failure) -> Self:
        """Return the body for a failure."""
        members = ("error", "message", "line", "column", "attempts")
        return cls(**{name: getattr(failure, name) for name in members})


class TrialStepBody(BaseModel):
    """The result of one transform for a sample record."""

    type: str
    received: int = Field(
        description="Number of records that the transform received: one, or more after a script that returned several."
    )
    dropped: int
    errors: list[RecordError]
    outputs: list[Any] = Field(description="The records that the transform passed on, in order.")
    logs: list[str] = Field(description="Lines of `console.log`.")


class TrialRecordBody(BaseModel):
    """The result of one sample record."""

    outcome: Literal["sent", "dropped", "error", "unfinished"] = Field(
        description="`sent` when any output reaches the sinks; `unfinished` when the time limit or the size limit of "
        "the response was reached."
    )
    reason: str = Field(description="Why the outcome is `unfinished`; otherwise empty.")
    outputs: list[Any] = Field(description="The records that every sink gets.")
    steps: list[TrialStepBody] = Field(
        description="One step per transform, up to the last transform that received a record."
    )


class TrialBody(BaseModel):
    """The warnings of a trial, and the result of each sample record."""

    warnings: list[Fault] = Field(description="Exceptions that the scripts threw for the stream's example record.")
    records: list[TrialRecordBody] = Field(description="In the order of the request.")

    @classmethod
    def of(cls, trial: Trial) -> dict[str, Any]:
        """Return the members of the body.

        The records in it are raw JSON, so that their numbers keep all digits.
        """
        return {
            "warnings": [{"pointer": fault.pointer, "detail": fault.detail} for fault in trial.warnings],
            "records": [_record_body(record) for record in trial.records],
        }


def _record_body(record: TrialRecord) -> dict[str, Any]:
    return {
        "outcome": record.outcome,
        "reason": record.unfinished_reason,
        "outputs": _raw(record.outputs),
        "steps": [_step_body(step) for step in record.steps],
    }


def _step_body(step: TrialStep) -> dict[str, Any]:
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
