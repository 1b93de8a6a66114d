"""The response body of a trial."""

from typing import Any, Literal

import msgspec
from pydantic import BaseModel, Field

from headwater.api.records import RecordItem
from headwater.api.schemas import Fault
from headwater.model.fields import is_none
from headwater.model.record import Failure
from headwater.model.topic_record import record_member
from headwater.model.trial import (
    DIFFERENCES,
    OUTCOMES,
    Comparison,
    DifferenceExample,
    ErrorGroup,
    Sample,
    Trial,
    TrialRecord,
    TrialStep,
    TrialSummary,
    TrialTransformTotals,
)

_RECORDS_DESCRIPTION = 'A record that is not JSON is `{"record_base64": …}`.'


class RecordError(BaseModel):
    """Why a record could not be processed, as in the headers of a dead letter."""

    error: str = Field(description="The name of the error's class.")
    message: str
    line: int | None
    column: int | None
    attempts: int

    @classmethod
    def of(cls, failure: Failure) -> dict[str, Any]:
        """Return the members of the body for a failure."""
        return {name: getattr(failure, name) for name in cls.model_fields}


class TrialStepBody(BaseModel):
    """The result of one transform for a sample record."""

    type: str
    received: int = Field(
        description="Number of records that the transform received: one, or more after a script that returned several."
    )
    dropped: int
    errors: list[RecordError]
    outputs: list[Any] = Field(
        description=f"The records that the transform passed on, in order. {_RECORDS_DESCRIPTION}"
    )
    logs: list[str] = Field(
        description="Lines of `console.log`; empty for a record that was processed together with others, as most are "
        "in a sample of more than 200 records."
    )


class TrialRecordBody(BaseModel):
    """The result of one sample record."""

    input: RecordItem | None = Field(
        default=None, description="The record, when it was read from the stream.", exclude_if=is_none
    )
    outcome: Literal["sent", "dropped", "error", "unfinished"] = Field(
        description="`sent` when any output reaches the sinks; `unfinished` when the time limit, the size limit of "
        "the response, or the size limit of the outputs of this record was reached (see `reason`)."
    )
    reason: str = Field(description="Why the outcome is `unfinished`; otherwise empty.")
    outputs: list[Any] = Field(description=f"The records that every sink gets. {_RECORDS_DESCRIPTION}")
    steps: list[TrialStepBody] = Field(
        description="One step per transform, up to the last transform that received a record."
    )


class TrialSampleBody(BaseModel):
    """How many records of the stream were read and processed."""

    requested: int
    read: int
    done: int = Field(description="Number of records that all transforms (of both revisions) have processed.")
    shown: int = Field(description="Number of records in `records`: as many as a response of 8 MiB has room for.")
    reason: str = Field(description="Why fewer records were read or done than requested; otherwise empty.")


class TransformTotalsBody(BaseModel):
    """The totals of one transform for all records."""

    uid: str = Field(description="The `uid` of the transform; a new transform gets another one when it is saved.")
    type: str
    received: int
    dropped: int
    errors: int
    sent: int = Field(description="Number of records that the transform passed on.")
    logs: list[str] = Field(description="The first lines of `console.log`, at most 100.")


class ErrorGroupBody(BaseModel):
    """Errors with the same cause."""

    transform_uid: str
    error: str = Field(description="The name of the error's class.")
    message: str
    line: int | None
    column: int | None
    count: int
    first: str | int = Field(
        description="The first record with this error: `<partition>/<offset>`, or its index in the `records` of the "
        "request."
    )


class TrialSummaryBody(BaseModel):
    """The results of all records that were processed."""

    sent: int
    dropped: int
    error: int
    unfinished: int
    transforms: list[TransformTotalsBody]
    errors: list[ErrorGroupBody] = Field(description="The most frequent errors first, at most 20.")


class ComparedResultBody(BaseModel):
    """The result of one of the two revisions for a record."""

    outcome: Literal["sent", "dropped", "error", "unfinished"]
    outputs: list[Any] = Field(description="The records that every sink gets.")
    errors: list[RecordError]


class DifferenceExampleBody(BaseModel):
    """A record for which the two revisions have different results."""

    difference: Literal["changed", "only_before", "only_after"]
    record: str | int = Field(
        description="The record: `<partition>/<offset>`, or its index in the `records` of the request."
    )
    input: Any = Field(description="The record itself.")
    before: ComparedResultBody
    after: ComparedResultBody


class ComparisonBody(BaseModel):
    """How the results differ from the results of the revision `against`, by record.

    Outputs are compared as JSON values, and errors by class and message. A record that is not done is not compared.
    """

    same: int
    changed: int = Field(description="Records with other outputs, or with other errors.")
    only_before: int = Field(description="Records that only the revision `against` sends.")
    only_after: int = Field(description="Records that only the configuration of the request sends.")
    examples: list[DifferenceExampleBody] = Field(description="At most 5 of each difference, 1 MiB together.")


class TrialBody(BaseModel):
    """The warnings of a trial, and the results of its records."""

    warnings: list[Fault] = Field(
        description="Exceptions that the scripts threw for the stream's example record, and other warnings as in the "
        "response to a save, such as `set_values` that were ignored."
    )
    sample: TrialSampleBody | None = Field(
        default=None, description="Present when the request has `sample`.", exclude_if=is_none
    )
    summary: TrialSummaryBody | None = Field(
        default=None, description="All counts are 0 when no record was read.", exclude_if=is_none
    )
    comparison: ComparisonBody | None = Field(
        default=None, description="Present when the request has `against`.", exclude_if=is_none
    )
    records: list[TrialRecordBody] | None = Field(
        default=None, description="In the order of the sample; left out by `detail: summary`.", exclude_if=is_none
    )

    @classmethod
    def of(cls, trial: Trial) -> dict[str, Any]:
        """Return the members of the body.

        The records in it are raw JSON, so that their numbers keep all digits.
        """
        body: dict[str, Any] = {
            "warnings": [{"pointer": fault.pointer, "detail": fault.detail} for fault in trial.warnings]
        }
        if trial.sample.is_from_stream:
            body["sample"] = _sample_body(trial)
        if trial.summary is not None:
            body["summary"] = _summary_body(trial.summary, trial.sample)
        if trial.comparison is not None:
            body["comparison"] = _comparison_body(trial.comparison, trial.sample)
        if trial.records is not None:
            body["records"] = [_record_body(i, record, trial.sample) for i, record in enumerate(trial.records)]
        return body

    @classmethod
    def encode(cls, trial: Trial) -> bytes:
        """Return the body as JSON."""
        return msgspec.json.encode(cls.of(trial))


def _sample_body(trial: Trial) -> dict[str, Any]:
    return {
        "requested": trial.sample.requested,
        "read": len(trial.sample.records),
        "done": trial.done,
        "shown": len(trial.records or ()),
        "reason": "; ".join(filter(None, (trial.sample.reason, trial.unprocessed_reason))),
    }


def _summary_body(summary: TrialSummary, sample: Sample) -> dict[str, Any]:
    return {
        **{outcome: summary.outcomes[outcome] for outcome in OUTCOMES},
        "transforms": [_totals_body(totals) for totals in summary.transforms],
        "errors": [_error_group_body(group, sample) for group in summary.errors],
    }


def _totals_body(totals: TrialTransformTotals) -> dict[str, Any]:
    return {name: getattr(totals, name) for name in TransformTotalsBody.model_fields}


def _error_group_body(group: ErrorGroup, sample: Sample) -> dict[str, Any]:
    members = ("error", "message", "line", "column", "count")
    return {
        "transform_uid": group.uid,
        **{name: getattr(group, name) for name in members},
        "first": _record_name(group.first, sample),
    }


def _comparison_body(comparison: Comparison, sample: Sample) -> dict[str, Any]:
    return {
        **{difference: comparison.counts[difference] for difference in DIFFERENCES},
        "examples": [_example_body(example, sample) for example in comparison.examples],
    }


def _example_body(example: DifferenceExample, sample: Sample) -> dict[str, Any]:
    return {
        "difference": example.difference,
        "record": _record_name(example.number, sample),
        "input": _raw(sample.records[example.number].value),
        "before": _compared_body(example.before),
        "after": _compared_body(example.after),
    }


def _compared_body(record: TrialRecord) -> dict[str, Any]:
    return {
        "outcome": record.outcome,
        "outputs": [_raw(output) for output in record.outputs],
        "errors": [RecordError.of(failure) for failure in record.failures],
    }


def _record_name(number: int, sample: Sample) -> str | int:
    return "{}/{}".format(*sample.records[number].position) if sample.is_from_stream else number


def _record_body(number: int, record: TrialRecord, sample: Sample) -> dict[str, Any]:
    input_ = {"input": msgspec.Raw(sample.records[number].json)} if sample.is_from_stream else {}
    return {
        **input_,
        "outcome": record.outcome,
        "reason": record.unfinished_reason,
        "outputs": [_raw(output) for output in record.outputs],
        "steps": [_step_body(step) for step in record.steps],
    }


def _step_body(step: TrialStep) -> dict[str, Any]:
    return {
        "type": step.type,
        "received": step.received,
        "dropped": step.dropped,
        "errors": [RecordError.of(failure) for failure in step.failures],
        "outputs": [_raw(output) for output in step.outputs],
        "logs": step.logs,
    }


def _raw(value: bytes | None) -> msgspec.Raw | dict[str, str] | None:
    """Return a record as raw JSON, or in base64.

    The record is in base64 when it is not JSON, or is nested too deeply to be checked. It may be any bytes: transforms
    may have passed it on without reading it, and a compromised sandbox may return anything.
    """
    member = record_member(value)
    shown: msgspec.Raw | dict[str, str] | None = member.get("record", member)
    return shown
