"""Response bodies. Request bodies are in model/."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, PlainSerializer

from headwater.errors import Fault
from headwater.model.dataset import Dataset
from headwater.model.deployment import LogLine, Status, WorkerStatus
from headwater.model.flow import Flow, PipelineConfig
from headwater.model.sink import TopicMembers
from headwater.model.stored import UnreadableConfig
from headwater.model.text import absent
from headwater.model.transform import RedisSetFilterTransform, Transform, V8Transform
from headwater.stores.base import ValuePage, SetWriteResult


def _rfc_3339(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


Timestamp = Annotated[
    datetime, PlainSerializer(_rfc_3339, return_type=str), Field(examples=["2026-01-02T03:04:05.678Z"])
]


class Fault(BaseModel):
    """One fault in a request."""

    pointer: str = Field(description="Where: a JSON pointer (RFC 6901) into the body, or `/<parameter>`.")
    detail: str = Field(description="What is wrong there.")


class ProblemDetails(BaseModel):
    """What every error answers with (RFC 9457)."""

    type: str = Field(examples=["urn:headwater:problem:invalid-input"])
    title: str
    status: int
    detail: str = Field(description="What is wrong, and what to do.")
    instance: str = Field(description="The path of the request.")
    request_id: str = Field(description="Also in the header X-Request-Id.")
    errors: list[Fault] | None = Field(default=None, description="With status 422: one entry per fault.")


Warnings = Annotated[
    list[Fault] | None,
    Field(
        description="What the owner should know of a save: what scripts that are new or changed threw on the stream's "
        "example record, values that were ignored, filters that end. Left out when there is nothing to say.",
        exclude_if=absent,
    ),
]


class FlowConfig(BaseModel):
    """A pipeline configuration."""

    id: str
    external_id: str | None = Field(
        default=None, description="Your own id of it; left out when there is none.", exclude_if=absent
    )
    name: str
    description: str
    tags: list[str]
    owner_org_team_user_id: str
    created_at: Timestamp
    updated_at: Timestamp
    revision: int = Field(description="Raised by each change, from 1; also the ETag.")
    pipeline_config: PipelineConfig | Any = Field(
        description="The pipeline. Of a configuration that can't be read, whatever JSON value is stored."
    )
    unreadable: str | None = Field(
        default=None,
        description="Why this version of Headwater can't read the configuration, and what to do. Left out when it can.",
        exclude_if=absent,
    )
    warnings: Warnings = None

    @classmethod
    def of(cls, flow: Flow, warnings: Sequence[Fault] = ()) -> Self:
        """The body for a stored configuration. warnings: those of the save, when it was just saved."""
        config = flow.pipeline_config
        return cls(
            id=flow.id,
            external_id=flow.external_id,
            name=flow.name,
            description=flow.description,
            tags=list(flow.tags),
            owner_org_team_user_id=flow.owner,
            created_at=flow.created_at,
            updated_at=flow.updated_at,
            revision=flow.revision,
            pipeline_config=config.document if isinstance(config, UnreadableConfig) else config.as_sent(),
            unreadable=flow.unreadable or None,
            warnings=_faults(warnings),
        )


class SavedV8Transform(V8Transform):
    """A script that was just saved."""

    warnings: Warnings = None


class SavedRedisSetFilterTransform(RedisSetFilterTransform):
    """A filter that was just saved."""

    warnings: Warnings = None


SavedTransform = Annotated[SavedV8Transform | SavedRedisSetFilterTransform, Field(discriminator="type")]


def saved_transform(transform: Transform, warnings: Sequence[Fault]) -> SavedTransform:
    """The body for a transform that was just saved."""
    if isinstance(transform, V8Transform):
        return SavedV8Transform(**transform.as_sent().model_dump(), warnings=_faults(warnings))
    return SavedRedisSetFilterTransform(**transform.model_dump(), warnings=_faults(warnings))


def _faults(problems: Sequence[Fault]) -> list[Fault] | None:
    return [Fault(pointer=problem.pointer, detail=problem.detail) for problem in problems] or None


class Message(BaseModel):
    """A sentence about what was done."""

    message: str


class DeadLetter(BaseModel):
    """Where records go that could not be processed."""

    topic: str


class Snippets(BaseModel):
    """Complete programs that read the sink's topic."""

    python: str
    node: str
    java: str
    kcat: str


class SinkConnection(TopicMembers):
    """How to read a sink's topic, and the members that set it up."""

    uid: str
    name: str
    type: Literal["kafka"]
    topic: str
    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str | None = Field(description="Null where the listener asks for no login.")
    username: str | None = Field(
        description="The Kafka user to log in as; null where the operator of Kafka names none for readers."
    )
    password: str | None = Field(description="The user's password; null likewise.")
    consumer_group: str = Field(description="Any group that begins with `dep-<deployment id>.` works too.")
    snippets: Snippets


class PricesConnection(BaseModel):
    """A prices sink: what it takes is read with POST /api/v1/developer/prices/stats."""

    uid: str
    name: str
    type: Literal["prices"]


class DeploymentBody(BaseModel):
    """A deployment and how to read what it writes."""

    message: str
    status: Literal["deployed", "deploying", "failed", "terminating"]
    config_id: str
    revision: int | None = Field(description="The revision that runs; null until one does.")
    desired_revision: int
    condition: str = Field(description="`Stable`, `RollingOut`, `RolledBack` or `Failed`.")
    reason: str = Field(description="Why the condition is what it is; empty when there is nothing to say.")
    workers: int
    dead_letter: DeadLetter
    sinks: list[Annotated[SinkConnection | PricesConnection, Field(discriminator="type")]]


class LogEntry(BaseModel):
    """A line that a worker wrote, or a script with `console.log`."""

    time: Timestamp
    worker: str
    source: Literal["worker", "script"]
    level: str = Field(description="`debug`, `info`, `warning` or `error`.")
    message: str


class DeploymentLogs(BaseModel):
    """The last lines of a deployment's workers."""

    lines: list[LogEntry] = Field(description="Newest first.")

    @classmethod
    def of(cls, lines: Sequence[LogLine]) -> Self:
        """The body for stored lines."""
        return cls(lines=[LogEntry(**line.model_dump()) for line in lines])


class WorkerEntry(BaseModel):
    """One worker."""

    name: str
    status: Status
    is_ready: bool
    is_crash_looping: bool
    is_oom_killed: bool
    restart_count: int = Field(description="A high value shows instability.")
    start_time: Timestamp
    reason: str = Field(
        description="Why the status is what it is. For 15 minutes also: which records were deleted from the source "
        "before they were read. Empty when there is nothing to say."
    )


class WorkersHealth(BaseModel):
    """The workers of a deployment, counted."""

    total_workers: int
    healthy_workers: int
    unhealthy_workers: int
    crashing_workers: int
    oom_killed_workers: int
    workers: list[WorkerEntry]

    @classmethod
    def of(cls, workers: tuple[WorkerStatus, ...]) -> Self:
        """The counts and the entries."""
        healthy = sum(w.is_ready for w in workers)
        return cls(
            total_workers=len(workers),
            healthy_workers=healthy,
            unhealthy_workers=len(workers) - healthy,
            crashing_workers=sum(w.is_crash_looping for w in workers),
            oom_killed_workers=sum(w.is_oom_killed for w in workers),
            workers=[WorkerEntry(**w.model_dump(exclude={"spec_hash", "deaths", "waits"})) for w in workers],
        )


class DeploymentStats(BaseModel):
    """The health of a deployment's workers, and how far they have come."""

    workers_health: WorkersHealth
    lag: int | None = Field(
        description="Records in the source that are not processed yet, by their offsets; null when Kafka is away."
    )
    last_progress_at: Timestamp | None = Field(
        description="When a batch of records was finished last; null when none was within a week, or the set store is "
        "away."
    )

    @classmethod
    def of(cls, workers: tuple[WorkerStatus, ...], lag: int | None, last_progress_at: datetime | None) -> Self:
        """The body for the workers of a deployment."""
        return cls(workers_health=WorkersHealth.of(workers), lag=lag, last_progress_at=last_progress_at)


VERSION = Field(description="The set's version after the write.")


class Added(BaseModel):
    """Values that were not in the filter before."""

    added: int
    version: int = VERSION

    @classmethod
    def of(cls, written: SetWriteResult) -> Self:
        """The body for a write."""
        return cls(added=written.changed, version=written.version)


class Removed(BaseModel):
    """Values that were in the filter before."""

    removed: int
    version: int = VERSION

    @classmethod
    def of(cls, written: SetWriteResult) -> Self:
        """The body for a write."""
        return cls(removed=written.changed, version=written.version)


class FilterCount(BaseModel):
    """The number of values in a filter."""

    count: int
    version: int = Field(description="The set's version.")


class FilterPage(BaseModel):
    """One page of a filter's values."""

    values: list[str]
    cursor: int | None = Field(description="Send it to get the next page; null on the last one.")
    total_count: int

    @classmethod
    def of(cls, page: ValuePage) -> dict[str, Any]:
        """The body for a page, not validated again: a page may hold many values."""
        return {"values": page.values, "cursor": page.cursor, "total_count": page.total}


class Membership(BaseModel):
    """Whether a value is in a filter."""

    value: str
    is_member: bool


class DatasetBody(BaseModel):
    """A dataset."""

    id: str
    name: str
    type: Literal["redis"] = "redis"
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """The body for a stored dataset."""
        return cls(id=dataset.id, name=dataset.name, created_at=dataset.created_at, updated_at=dataset.updated_at)


class EntriesWritten(BaseModel):
    """How many entries a write changed."""

    count: int


class EntriesPage(BaseModel):
    """One page of a dataset's entries."""

    values: list[str]
    cursor: str | None = Field(description="Send it to get the next page; null on the last one.")
    total_count: int

    @classmethod
    def of(cls, page: ValuePage) -> dict[str, Any]:
        """The body for a page, not validated again: a page may hold many values."""
        cursor = None if page.cursor is None else str(page.cursor)
        return {"values": page.values, "cursor": cursor, "total_count": page.total}


class Existence(BaseModel):
    """Whether a value is in a dataset."""

    exists: bool


class Stream(BaseModel):
    """One stream of records that a pipeline can read."""

    chain: str
    entity: str
    type: Literal["pubsub", "kafka"]
    has_zerolag: bool = Field(description="True when `is_zerolag: true` works here.")
    event_time: str | None = Field(description="The field with the record's own time.")
    description: str
    key: list[str] = Field(description="Fields that tell a record from all others of the stream; a dot leads inside.")
    prices: list[str] = Field(description="Price recipes that read this stream.")
    record_schema: dict[str, Any] = Field(description="JSON Schema of a record.")
    example: dict[str, Any] = Field(description="A record as a pipeline sees it.")


class Liveness(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The API can do its work."""

    status: Literal["ready"] = "ready"
    dependencies: dict[str, str] = Field(description="`ok` or `unavailable`, by name.")
