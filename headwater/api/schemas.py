"""The response bodies of configurations, deployments, sets, streams, health and errors.

The bodies of trials and applied versions are in trial_schemas.py and applied.py. All other bodies are in the modules of
their routes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self, Union

from pydantic import BaseModel, Field, PlainSerializer, create_model

from headwater import errors
from headwater.model.deployment import Deployment, LogLine, ObservedWorker, ObservedWorkerStatus
from headwater.model.fields import is_none
from headwater.model.flow import Flow, PipelineConfig
from headwater.model.positions import Move, Rewind
from headwater.model.sink import TopicFields
from headwater.model.stored_config import UnreadablePipelineConfig
from headwater.model.transforms import TRANSFORM_MODELS, TransformConfig
from headwater.model.value_sets import Dataset
from headwater.stores.protocols.sets import SetWriteResult, ValuePage


def rfc_3339(time: datetime) -> str:
    """Return a time as RFC 3339 text with milliseconds, as all responses have it."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


Timestamp = Annotated[
    datetime, PlainSerializer(rfc_3339, return_type=str), Field(examples=["2026-01-02T03:04:05.678Z"])
]


class Fault(BaseModel):
    """One fault in a request."""

    pointer: str = Field(description="The faulty member: a JSON pointer (RFC 6901) into the body, or `/<parameter>`.")
    detail: str = Field(description="What is wrong with the member.")


class ProblemDetails(BaseModel):
    """The body of every error response (RFC 9457)."""

    type: str = Field(examples=["urn:headwater:problem:invalid-input"])
    title: str
    status: int
    detail: str = Field(description="What is wrong and what to do.")
    instance: str = Field(description="The path of the request.")
    request_id: str = Field(description="Also in the header X-Request-Id.")
    errors: list[Fault] | None = Field(default=None, description="With status 422: one entry per fault.")
    used: int | None = Field(
        default=None, description="Your usage of an exceeded quota; null when all owners share it."
    )
    allowed: int | None = Field(default=None, description="The limit of an exceeded quota.")


Warnings = Annotated[
    list[Fault] | None,
    Field(
        description="Warnings about the save: exceptions that new or changed scripts threw for the stream's example "
        "record, fields in filters that the stream does not have, `set_values` that were ignored, and filters that "
        "were removed. Omitted when there are none.",
        exclude_if=is_none,
    ),
]


class FlowConfig(BaseModel):
    """A pipeline configuration."""

    id: str
    external_id: str | None = Field(
        default=None, description="Your own id of the configuration; omitted when it has none.", exclude_if=is_none
    )
    name: str
    description: str
    tags: list[str]
    owner_org_team_user_id: str
    created_at: Timestamp
    updated_at: Timestamp
    revision: int = Field(
        description="The number of the revision: 1 at first, and incremented by each change. It is also the ETag."
    )
    pipeline_config: PipelineConfig | Any = Field(
        description="The pipeline. For a configuration that this version can't read, the stored JSON value as it is."
    )
    unreadable: str | None = Field(
        default=None,
        description="Why this version of Headwater can't read the configuration, and what to do; omitted for a "
        "configuration that it can read.",
        exclude_if=is_none,
    )
    warnings: Warnings = None

    @classmethod
    def of(cls, flow: Flow, warnings: Sequence[errors.Fault] = ()) -> Self:
        """Return the body for a stored configuration.

        Args:
            warnings: The warnings of the save that has just been made.
        """
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
            pipeline_config=config.document
            if isinstance(config, UnreadablePipelineConfig)
            else config.without_internal_fields(),
            unreadable=flow.unreadable_reason or None,
            warnings=fault_list(warnings),
        )


def _saved_model(model: type[TransformConfig]) -> type[BaseModel]:
    """Return the model of a transform that was just saved.

    It is the model of the stored transform with `warnings`.
    """
    return create_model(
        f"Saved{model.__name__}",
        __base__=model,
        __doc__=f"A {model.noun} that was just saved.",
        warnings=(Warnings, None),
    )


SAVED_MODELS: dict[str, Any] = {name: _saved_model(model) for name, model in TRANSFORM_MODELS.items()}
SAVED_TRANSFORM: Any = Annotated[Union[tuple(SAVED_MODELS.values())], Field(discriminator="type")]  # noqa: UP007
"""The response model of a transform that was just saved: the union of SAVED_MODELS."""


def saved_transform(transform: TransformConfig, warnings: Sequence[errors.Fault]) -> TransformConfig:
    """Return the response body for a transform that was just saved."""
    members = transform.without_internal_fields().model_dump()
    saved: TransformConfig = SAVED_MODELS[transform.type](**members, warnings=fault_list(warnings))
    return saved


def fault_list(faults: Sequence[errors.Fault]) -> list[Fault] | None:
    """Return the `warnings` of a response body; None when there are none."""
    return [Fault(pointer=fault.pointer, detail=fault.detail) for fault in faults] or None


class Message(BaseModel):
    """A sentence that says what the request did."""

    message: str


class DeadLetterTopic(BaseModel):
    """The dead-letter topic, which has the records that could not be processed."""

    topic: str


class Snippets(BaseModel):
    """Complete programs that read the sink's topic."""

    python: str
    node: str
    java: str
    kcat: str


class SinkConnection(TopicFields):
    """The connection details of a sink's topic, and the sink's members that configure it."""

    uid: str
    name: str
    type: Literal["kafka"]
    topic: str
    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str | None = Field(description="Null where the listener requires no login.")
    username: str | None = Field(
        description="The Kafka user to log in as; null where the operator of Kafka has configured no user for readers."
    )
    password: str | None = Field(description="The user's password; null where `username` is null.")
    consumer_group: str = Field(
        description="The suggested consumer group. Any group whose name begins with `dep-<deployment id>.` works too."
    )
    snippets: Snippets


class PricesConnection(BaseModel):
    """A prices sink. Read the prices with POST /api/v1/developer/prices/stats."""

    uid: str
    name: str
    type: Literal["prices"]


class MovedPosition(BaseModel):
    """The position of a partition: the offset of the next record to read."""

    before: int | None = Field(description="Null when the partition had no position.")
    after: int

    @classmethod
    def by_partition(cls, moves: Mapping[int, Move]) -> dict[str, Self]:
        """Return the positions of moved partitions, in the order of their numbers."""
        return {str(number): cls(before=move.before, after=move.after) for number, move in sorted(moves.items())}


class LastRewind(BaseModel):
    """The last rewind of a deployment."""

    to: str | dict[str, int] = Field(description="The target of the rewind, as in the request.")
    requested_at: Timestamp
    state: Literal["pending", "done", "failed"]
    positions: dict[str, MovedPosition] = Field(
        description="The position of each partition that was moved. Empty while the rewind is pending, after a failure "
        "and for a stream from Google Pub/Sub."
    )
    error: str = Field(description="Why the rewind has failed; the positions are then unchanged. Empty otherwise.")

    @classmethod
    def of(cls, rewind: Rewind) -> Self:
        """Return the response body for the last rewind of a deployment."""
        to = rewind.to if isinstance(rewind.to, str) else {str(number): rewind.to[number] for number in rewind.to}
        return cls(
            to=to,
            requested_at=rewind.requested_at,
            state=rewind.state,
            positions=MovedPosition.by_partition(rewind.moves),
            error=rewind.error,
        )


class WorkerScaling(BaseModel):
    """How the number of workers follows the load."""

    min: int = Field(description="The least number of workers.")
    max: int = Field(description="The greatest number of workers.")
    workers: int = Field(description="The present number of workers; a paused pipeline is resumed with it.")
    reason: str = Field(description="Why the number was changed last; empty until it is changed.")
    changed_at: Timestamp | None = Field(description="When the number was changed last; null until it is changed.")

    @classmethod
    def of(cls, deployment: Deployment) -> Self | None:
        """Return the response body for a deployment; None when its number of workers is fixed."""
        revision, last = deployment.effective_revision, deployment.scaling
        bounds = revision.config.parallelism
        if isinstance(bounds, int):
            return None
        return cls(
            min=bounds.min,
            max=bounds.max,
            workers=deployment.worker_count(revision),
            reason="" if last is None else last.reason,
            changed_at=None if last is None else last.changed_at,
        )


OptionalScaling = Annotated[
    WorkerScaling | None,
    Field(
        description="How the number of workers follows the load. Omitted without bounds in `parallelism`.",
        exclude_if=is_none,
    ),
]


class DeploymentBody(BaseModel):
    """The state of a deployment, and the connection details of its sinks."""

    message: str
    status: Literal["deployed", "deploying", "pausing", "paused", "failed", "terminating"]
    config_id: str
    revision: int | None = Field(description="The revision that runs; null until a revision runs.")
    desired_revision: int
    condition: str = Field(description="`Stable`, `RollingOut`, `RolledBack` or `Failed`.")
    reason: str = Field(description="The reason for the condition; empty when there is none.")
    workers: int = Field(description="The number of workers that should run; 0 while the pipeline is paused.")
    scaling: OptionalScaling = None
    rewind: LastRewind | None = Field(description="The last rewind; null when there was none.")
    dead_letter: DeadLetterTopic
    sinks: list[Annotated[SinkConnection | PricesConnection, Field(discriminator="type")]]


class Gap(BaseModel):
    """Offsets of a partition whose records the source no longer has."""

    partition: int
    start: int = Field(serialization_alias="from", description="The first offset that was removed.")
    end: int = Field(
        serialization_alias="to", description="The offset after the last removed one, at which the pipeline continues."
    )


class ResumedDeployment(DeploymentBody):
    """The state of a deployment that was resumed, and the connection details of its sinks."""

    gaps: list[Gap] = Field(
        description="The offsets that retention removed from the source while the pipeline was paused; empty when "
        "there are none."
    )


class RewoundPipeline(BaseModel):
    """A pipeline that was rewound."""

    message: str
    positions: dict[str, MovedPosition] = Field(
        description="The position of each partition that was moved; empty for a stream from Google Pub/Sub."
    )


class LogEntry(BaseModel):
    """A log line of a worker, or a `console.log` line of a script."""

    time: Timestamp
    worker: str
    source: Literal["worker", "script"]
    level: str = Field(description="`debug`, `info`, `warning` or `error`.")
    message: str


class DeploymentLogs(BaseModel):
    """The last log lines of a deployment's workers."""

    lines: list[LogEntry] = Field(description="Newest first.")

    @classmethod
    def of(cls, lines: Sequence[LogLine]) -> Self:
        """Return the body for stored lines."""
        return cls(lines=[LogEntry(**line.model_dump()) for line in lines])


class WorkerEntry(BaseModel):
    """The state of one worker."""

    name: str
    status: ObservedWorkerStatus
    is_ready: bool
    is_crash_looping: bool
    is_oom_killed: bool
    restart_count: int = Field(description="A high value shows instability.")
    start_time: Timestamp
    reason: str = Field(
        description="The reason for the status; empty when there is none. For 15 minutes after the worker has skipped "
        "records that were deleted from the source before it read them, the reason also names these records."
    )


_NOT_SHOWN = {"spec_hash", "deaths", "waits", "set_versions", "not_ready_since"}
"""The attributes of ObservedWorker that are not part of a response. model/deployment.py says what they mean."""


class WorkersHealth(BaseModel):
    """The workers of a deployment, and how many are in which state."""

    total_workers: int
    healthy_workers: int
    unhealthy_workers: int
    crashing_workers: int
    oom_killed_workers: int
    workers: list[WorkerEntry]

    @classmethod
    def of(cls, workers: tuple[ObservedWorker, ...]) -> Self:
        """Return the body for the workers of a deployment."""
        healthy = sum(worker.is_ready for worker in workers)
        return cls(
            total_workers=len(workers),
            healthy_workers=healthy,
            unhealthy_workers=len(workers) - healthy,
            crashing_workers=sum(worker.is_crash_looping for worker in workers),
            oom_killed_workers=sum(worker.is_oom_killed for worker in workers),
            workers=[WorkerEntry(**worker.model_dump(exclude=_NOT_SHOWN)) for worker in workers],
        )


class DeploymentStats(BaseModel):
    """The health and the progress of a deployment's workers."""

    workers_health: WorkersHealth
    lag: int | None = Field(
        description="Number of records in the source that are not processed yet, by their offsets; null when Kafka is "
        "unavailable, and always null for a source on Pub/Sub."
    )
    last_progress_at: Timestamp | None = Field(
        description="Time of the last committed batch; null when there was none within a week, or when Valkey or "
        "Redis is unavailable."
    )
    scaling: OptionalScaling = None

    @classmethod
    def of(
        cls,
        workers: tuple[ObservedWorker, ...],
        lag: int | None,
        last_progress_at: datetime | None,
        scaling: WorkerScaling | None,
    ) -> Self:
        """Return the body for the workers of a deployment."""
        health = WorkersHealth.of(workers)
        return cls(workers_health=health, lag=lag, last_progress_at=last_progress_at, scaling=scaling)


VERSION_FIELD = Field(description="The set's version after the write.")


class ValuesAdded(BaseModel):
    """The number of values that an add request has added."""

    added: int
    version: int = VERSION_FIELD

    @classmethod
    def of(cls, written: SetWriteResult) -> Self:
        """Return the body for a write."""
        return cls(added=written.changed, version=written.version)


class ValuesRemoved(BaseModel):
    """The number of values that a remove request has removed."""

    removed: int
    version: int = VERSION_FIELD

    @classmethod
    def of(cls, written: SetWriteResult) -> Self:
        """Return the body for a write."""
        return cls(removed=written.changed, version=written.version)


class FilterCount(BaseModel):
    """The number of values in a filter."""

    count: int
    version: int = Field(description="The set's version.")


class FilterSummary(FilterCount):
    """The number of values in a filter, and their digest."""

    digest: str | None = Field(
        description="Equal for equal sets of values, whatever the order of the writes was: the sum of the 128-bit XXH3 "
        "of each value in UTF-8, modulo 2^128, in hex. Null in the rare case that the set changes too often to "
        "compute it."
    )


class FilterPage(BaseModel):
    """One page of a filter's values."""

    values: list[str]
    cursor: int | None = Field(description="Send it as `cursor` to get the next page; null on the last page.")
    total_count: int

    @classmethod
    def of(cls, page: ValuePage) -> dict[str, Any]:
        """Return the members of the body.

        No model is created, because a page may have many values.
        """
        return {"values": page.values, "cursor": page.cursor, "total_count": page.total}


class FilterMembership(BaseModel):
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
        """Return the body for a stored dataset."""
        return cls(id=dataset.id, name=dataset.name, created_at=dataset.created_at, updated_at=dataset.updated_at)


class EntriesWritten(BaseModel):
    """The number of entries that a write has changed."""

    count: int
    version: int = VERSION_FIELD

    @classmethod
    def of(cls, written: SetWriteResult) -> Self:
        """Return the body for a write."""
        return cls(count=written.changed, version=written.version)


class EntriesPage(BaseModel):
    """One page of a dataset's entries, which are its values."""

    values: list[str]
    cursor: str | None = Field(description="Send it as `cursor` to get the next page; null on the last page.")
    total_count: int

    @classmethod
    def of(cls, page: ValuePage) -> dict[str, Any]:
        """Return the members of the body.

        No model is created, because a page may have many values.
        """
        cursor = None if page.cursor is None else str(page.cursor)
        return {"values": page.values, "cursor": cursor, "total_count": page.total}


class DatasetMembership(BaseModel):
    """Whether a value is in a dataset."""

    exists: bool


class Stream(BaseModel):
    """A stream of records that a pipeline can read."""

    chain: str
    entity: str
    type: Literal["pubsub", "kafka"] = Field(
        description="The value of `source.type` for this chain. It does not say where the records come from."
    )
    has_zerolag: bool = Field(
        description="Whether this installation has the faster feed of the stream, which `is_zerolag: true` selects."
    )
    event_time: str | None = Field(description="The field with the record's own time; null when records have none.")
    description: str
    key: list[str] = Field(
        description="Fields that identify a record within its stream. A dot separates the members of a nested object."
    )
    prices: list[str] = Field(description="Price recipes that read this stream.")
    record_schema: dict[str, Any] = Field(description="JSON Schema of a record.")
    example: dict[str, Any] = Field(description="An example record.")


class Liveness(BaseModel):
    """Response of GET /healthz."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Response of GET /readyz when all dependencies are available."""

    status: Literal["ready"] = "ready"
    dependencies: dict[str, str] = Field(description="`ok` or `unavailable`, by name.")
