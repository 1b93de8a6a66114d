"""Trials of configurations with sample records."""

from typing import Any

from headwater_client.model import Model
from headwater_client.models.records import Record
from headwater_client.problem import Fault


class RecordError(Model, frozen=True, kw_only=True):
    """Why a record could not be processed."""

    error: str
    message: str
    line: int | None
    column: int | None
    attempts: int


class TrialStep(Model, frozen=True, kw_only=True):
    """The result of one transform for a sample record."""

    type: str
    received: int
    dropped: int
    errors: list[RecordError]
    outputs: list[Any]
    logs: list[str]


class TrialRecord(Model, frozen=True, kw_only=True):
    """The result of one sample record.

    Attributes:
        outcome: `sent` when the record gave outputs; `dropped`, `error` or `unfinished`.
        input: The record, when it was read from the stream.
    """

    outcome: str
    reason: str
    outputs: list[Any]
    steps: list[TrialStep]
    input: Record | None = None


class TransformTotals(Model, frozen=True, kw_only=True):
    """The totals of one transform for all records."""

    uid: str
    type: str
    received: int
    dropped: int
    errors: int
    sent: int
    logs: list[str]


class ErrorGroup(Model, frozen=True, kw_only=True):
    """Errors with the same cause.

    Attributes:
        count: The number of failures; a record may have several.
        first: The first record with this error: `<partition>/<offset>`, or its index in the request.
    """

    error: str
    message: str
    transform_uid: str
    line: int | None
    column: int | None
    count: int
    first: str | int


class TrialSummary(Model, frozen=True, kw_only=True):
    """The results of all records that were processed."""

    sent: int
    dropped: int
    error: int
    unfinished: int
    transforms: list[TransformTotals]
    errors: list[ErrorGroup]


class TrialSample(Model, frozen=True, kw_only=True):
    """How many records of the stream were read and processed.

    Attributes:
        requested: The number of records that the request asks for.
        read: The number of records that were read from the stream.
        done: The number of records that all transforms have processed.
        shown: The number of records in `Trial.records`.
        reason: Why fewer records were read or processed than requested; empty otherwise.
    """

    requested: int
    read: int
    done: int
    shown: int
    reason: str


class ComparedResult(Model, frozen=True, kw_only=True):
    """The result of one of the two revisions for a record."""

    outcome: str
    outputs: list[Any]
    errors: list[RecordError]


class DifferenceExample(Model, frozen=True, kw_only=True):
    """A record for which the two revisions have different results.

    Attributes:
        record: The record: `<partition>/<offset>`, or its index in the request.
        difference: `changed`; `only_before` or `only_after` when only one of the revisions gave outputs.
    """

    record: str | int
    difference: str
    input: Any
    before: ComparedResult
    after: ComparedResult


class Comparison(Model, frozen=True, kw_only=True):
    """How the results differ from the results of another revision, in records."""

    same: int
    changed: int
    only_before: int
    only_after: int
    examples: list[DifferenceExample]


class Trial(Model, frozen=True, kw_only=True):
    """The results of a configuration for sample records."""

    warnings: list[Fault]
    summary: TrialSummary | None = None
    records: list[TrialRecord] | None = None
    sample: TrialSample | None = None
    comparison: Comparison | None = None
