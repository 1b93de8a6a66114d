"""Trials, in which a configuration processes a sample of records without being saved."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from headwater.errors import Fault
from headwater.model.flow import NewFlow
from headwater.model.record import Failure
from headwater.model.request_model import RequestModel
from headwater.model.revision import MAX_REVISION
from headwater.model.timestamps import parse_rfc_3339
from headwater.model.topic_record import RecordPosition, TopicRecord

MAX_SAMPLES = 100
"""The maximum number of records in a request."""
MAX_SAMPLE_BYTES = 1 << 20
"""The maximum size of all records in a request."""
MAX_STREAM_SAMPLES = 10_000
"""The maximum number of records that a trial reads from the stream."""
MAX_STREAM_SAMPLE_BYTES = 16_000_000
"""The maximum size of the records that a trial reads from the stream."""
_POSITION = re.compile(r"([0-9]{1,9})/([0-9]{1,18})")
"""The partition fits into 32 bits, and the offset into 64 bits."""

Outcome = Literal["sent", "dropped", "error", "unfinished"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def parse_position(text: str) -> RecordPosition:
    """Return the position that `<partition>/<offset>` names. Raises ValueError."""
    match = _POSITION.fullmatch(text)
    if match is None:
        raise ValueError("must be <partition>/<offset>, such as 0/1234")
    return int(match[1]), int(match[2])


def _require_position(text: str) -> str:
    parse_position(text)
    return text


def _require_against(value: object) -> object:
    """Return the value of `against`.

    Raises ValueError when the value is not "deployed", a revision or null. Without this function, pydantic reports a
    fault for each member of the union.
    """
    is_revision = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_REVISION
    if value is not None and value != "deployed" and not is_revision:
        raise ValueError('must be "deployed" or the number of a revision')
    return value


def _to_time(value: object) -> object:
    return parse_rfc_3339(value) if isinstance(value, str) else value


PositionText = Annotated[
    str, AfterValidator(_require_position), Field(json_schema_extra={"pattern": f"^{_POSITION.pattern}$"})
]
SampleCount = Annotated[int, Field(ge=1, le=MAX_STREAM_SAMPLES)]


def _sample_schema(**types: str) -> dict[str, Any]:
    """Return the JSON schema of a sample that has exactly these members."""
    members = {name: {"type": types.get(name, "null")} for name in ("last", "from", "count", "positions")}
    return {"required": [*types], "properties": members}


_SAMPLE_SCHEMAS = [
    _sample_schema(last="integer"),
    _sample_schema(**{"from": "string", "count": "integer"}),
    _sample_schema(positions="array"),
]


class StreamSample(RequestModel):
    """A sample of the configuration's own stream."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, json_schema_extra={"anyOf": [*_SAMPLE_SCHEMAS]})

    last: SampleCount | None = Field(
        default=None, description="The newest records of all partitions, by their Kafka timestamps."
    )
    since: Annotated[datetime, BeforeValidator(_to_time)] | None = Field(
        default=None, alias="from", description="The first `count` records from this time on (RFC 3339)."
    )
    count: SampleCount | None = Field(default=None, description="The number of records from `from` on.")
    positions: list[PositionText] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_STREAM_SAMPLES,
        description="The records with these positions, each as `<partition>/<offset>`.",
    )

    @model_validator(mode="after")
    def _is_one_sample(self) -> Self:
        chosen = [self.last is not None, self.since is not None, self.positions is not None]
        if sum(chosen) != 1:
            raise ValueError('must be one of {"last": n}, {"from": time, "count": n} and {"positions": […]}')
        if (self.count is None) != (self.since is None):
            raise ValueError("needs `from` and `count` together")
        return self

    @property
    def requested(self) -> int:
        """The number of records of the sample."""
        return self.last or self.count or len(self.positions or ())


class NewTrial(NewFlow):
    """A request for a trial.

    It has a configuration, a sample of records, and the revision to compare the results with.
    """

    id: Any = Field(
        default=None,
        description="The id of a stored configuration. The body is then checked as PUT does, and the filters that this "
        "configuration has are tested against their live values.",
    )
    records: list[Any] = Field(
        default_factory=list,
        max_length=MAX_SAMPLES,
        description=f"Sample records, as JSON values; together at most {MAX_SAMPLE_BYTES >> 20} MiB.",
    )
    sample: StreamSample | None = Field(
        default=None,
        description=f"In place of `records`: up to {MAX_STREAM_SAMPLES:,} records of the stream, together at most "
        f"{MAX_STREAM_SAMPLE_BYTES // 1_000_000} MB.",
    )
    against: Annotated[
        Literal["deployed"] | Annotated[int, Field(ge=1, le=MAX_REVISION)] | None, BeforeValidator(_require_against)
    ] = Field(
        default=None,
        description="The revision of the configuration `id` that processes the sample too: `deployed`, or its number.",
    )
    detail: Literal["records", "summary"] = Field(
        default="records", description="`summary` leaves the results of the single records out."
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """The records of a trial.

    Attributes:
        topic: The topic of the records.
        records: The records, in the order in which they are processed.
        requested: How many records the trial was to read from the stream; None when the request itself contained the
            records.
        reason: Why there are fewer records than requested; empty when there are as many.
    """

    topic: str
    records: Sequence[TopicRecord]
    requested: int | None = None
    reason: str = ""

    @property
    def is_from_stream(self) -> bool:
        """Whether the records were read from a stream."""
        return self.requested is not None


@dataclass(frozen=True, slots=True)
class TrialStep:
    """The result of one transform for a record of the sample.

    Attributes:
        type: The type of the transform.
        received: The number of records that the transform received.
        dropped: The number of records that the transform dropped.
        outputs: The records that the transform passes on.
        failures: The records that the transform could not process.
        logs: The lines that a script wrote with `console.log`; empty for a record that was processed together with
            others.
    """

    type: str
    received: int
    dropped: int
    outputs: list[bytes | None]
    failures: list[Failure]
    logs: list[str]


@dataclass(slots=True)
class TrialRecord:
    """The result of one record of the sample.

    Attributes:
        outputs: The records that reach the sinks.
        failures: The failures of all transforms. Each names a record that its transform could not process.
        steps: The results of the transforms, in order.
        unfinished_reason: Why the processing stopped before the last transform; empty when it did not.
    """

    outputs: list[bytes | None] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    steps: list[TrialStep] = field(default_factory=list)
    unfinished_reason: str = ""

    @property
    def outcome(self) -> Outcome:
        """The outcome: "sent" when an output reaches the sinks.

        Otherwise "error" when a transform failed, and "dropped" when none did. "unfinished" when the processing stopped
        before the last transform.
        """
        if self.unfinished_reason:
            return "unfinished"
        if self.outputs:
            return "sent"
        return "error" if self.failures else "dropped"


@dataclass(slots=True)
class TrialTransformTotals:
    """The totals of one transform for all records of the sample.

    Attributes:
        uid: The uid of the transform.
        type: The type of the transform.
        received: The number of records that the transform received.
        dropped: The number of records that the transform dropped.
        errors: The number of records that the transform could not process.
        sent: The number of records that the transform passed on.
        logs: The first lines that a script wrote with `console.log`.
    """

    uid: str
    type: str
    received: int = 0
    dropped: int = 0
    errors: int = 0
    sent: int = 0
    logs: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures with the same cause.

    Attributes:
        uid: The uid of the transform.
        count: The number of failures.
        first: The number, from 0, of the first record of the sample that has such a failure.
    """

    uid: str
    error: str
    message: str
    line: int | None
    column: int | None
    count: int
    first: int


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """The results of all records that were processed."""

    outcomes: Counter[Outcome]
    transforms: list[TrialTransformTotals]
    errors: list[ErrorGroup]


Difference = Literal["same", "changed", "only_before", "only_after"]
"""How the results of a record differ: `before` is the result of the revision `against`, `after` that of the request.

"only_before" and "only_after" mean that only this result has outputs.
"""
DIFFERENCES: tuple[Difference, ...] = get_args(Difference)


@dataclass(frozen=True, slots=True)
class DifferenceExample:
    """A record whose results differ.

    Attributes:
        number: The number of the record in the sample, from 0.
    """

    difference: Difference
    number: int
    before: TrialRecord
    after: TrialRecord


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between the results of two revisions, by record."""

    counts: Counter[Difference]
    examples: list[DifferenceExample]


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial.

    Attributes:
        warnings: The warnings for the configuration.
        sample: The records of the trial.
        records: The results of the first records; None when they were not wanted.
        done: The number of records that were processed.
        unprocessed_reason: Why some records were not processed; empty when all were.
        summary: The results of all records that were processed; None before the trial has run.
        comparison: The comparison with another revision; None when there is none.
    """

    warnings: list[Fault]
    sample: Sample
    records: list[TrialRecord] | None = field(default_factory=list)
    done: int = 0
    unprocessed_reason: str = ""
    summary: TrialSummary | None = None
    comparison: Comparison | None = None
