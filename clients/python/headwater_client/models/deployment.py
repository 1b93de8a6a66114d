"""Deployments: state, connection details, workers and log lines."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from headwater_client import consumer
from headwater_client.model import Model
from headwater_client.problem import Fault


class Snippets(Model, frozen=True, kw_only=True):
    """Complete programs that read the topic of a sink."""

    python: str
    node: str
    java: str
    kcat: str


class SinkConnection(Model, frozen=True, kw_only=True):
    """A sink, and how to connect to its topic.

    A `prices` sink has `uid`, `name` and `type` alone.

    Attributes:
        sasl_mechanism: None where the listener requires no login.
        username: None where the operator of Kafka has configured no user for readers.
        consumer_group: The suggested group; any group that begins with `dep-<deployment id>.` works too.
    """

    uid: str
    name: str
    type: str
    topic: str = ""
    bootstrap_servers: str = ""
    security_protocol: str = ""
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    consumer_group: str = ""
    snippets: Snippets | None = None
    partitions: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    compression: str | None = None
    cleanup_policy: str | None = None


class DeadLetterTopic(Model, frozen=True, kw_only=True):
    """The topic with the records that could not be processed."""

    topic: str


class MovedPosition(Model, frozen=True, kw_only=True):
    """The offset of the next record to read, before and after a rewind."""

    before: int | None
    after: int


class LastRewind(Model, frozen=True, kw_only=True):
    """The last rewind of a deployment.

    Attributes:
        state: `pending`, `done` or `failed`.
        error: Why the rewind has failed; empty otherwise.
    """

    requested_at: datetime
    to: str | dict[str, int]
    state: str
    positions: dict[str, MovedPosition]
    error: str


class WorkerScaling(Model, frozen=True, kw_only=True):
    """How the number of workers follows the load."""

    min: int
    max: int
    workers: int
    changed_at: datetime | None
    reason: str


class Gap(Model, frozen=True, kw_only=True):
    """Offsets of a partition whose records retention removed while the pipeline was paused.

    Attributes:
        start: The first offset that was removed.
        end: The offset after the last removed one, at which the pipeline continues.
    """

    partition: int
    start: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")


class Deployment(Model, frozen=True, kw_only=True):
    """The state of a deployment, and the connection details of its sinks.

    Attributes:
        status: `deployed`, `deploying`, `pausing`, `paused`, `failed` or `terminating`.
        revision: The revision that runs; None until one runs.
        condition: `Stable`, `RollingOut`, `RolledBack` or `Failed`.
        reason: Why the deployment has this condition.
        workers: The number of workers that should run.
        gaps: After a resume, the offsets that retention removed during the pause.
        warnings: After a rollback, what the server found when the revision was saved.
    """

    message: str
    status: str
    config_id: str
    revision: int | None
    desired_revision: int
    condition: str
    reason: str
    workers: int
    dead_letter: DeadLetterTopic
    sinks: list[SinkConnection]
    rewind: LastRewind | None = None
    scaling: WorkerScaling | None = None
    gaps: list[Gap] = []
    warnings: list[Fault] | None = None

    def sink(self, name: str | None = None) -> SinkConnection:
        """Return the sink with this name; without a name, the first sink with a topic.

        `dlq` is the topic of the dead letters. Raises KeyError.
        """
        kafka = [sink for sink in self.sinks if sink.topic]
        if not kafka:
            raise KeyError("The deployment has no sink with a topic, and so no credentials for Kafka.")
        if name == "dlq":
            return msgspec.structs.replace(kafka[0], name="dlq", topic=self.dead_letter.topic)
        found = [sink for sink in kafka if name is None or sink.name == name]
        if not found:
            known = ", ".join([*(sink.name for sink in kafka), "dlq"])
            raise KeyError(f"The deployment has no sink {name!r} with a topic. It has: {known}.")
        return found[0]

    def consume(
        self,
        sink: str | None = None,
        *,
        group: str = "main",
        start: str = "earliest",
        idle_s: float | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Iterator[consumer.ConsumedRecord]:
        """Yield the records of a sink from Kafka. Needs `headwater-client[kafka]`.

        The offset of a record is stored when the next one is asked for, and committed a few seconds later, so each
        record is yielded at least once.

        Args:
            sink: The name of the sink, or `dlq`; by default the first sink with a topic.
            group: The last part of the consumer group's name. Consumers of one group share the records.
            start: Where a new group starts, `earliest` or `latest`.
            idle_s: End after this many seconds without a record; by default the iteration does not end.
            settings: More settings of librdkafka.
        """
        return consumer.consume(self.sink(sink), group, start, idle_s, settings or {})

    def consume_async(
        self,
        sink: str | None = None,
        *,
        group: str = "main",
        start: str = "earliest",
        idle_s: float | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[consumer.ConsumedRecord, None]:
        """Yield the records of a sink from Kafka, for asyncio.

        The arguments have the same meanings as in `consume`.
        """
        return consumer.consume_async(self.sink(sink), group, start, idle_s, settings or {})


class Rewound(Model, frozen=True, kw_only=True):
    """A pipeline whose positions were moved."""

    message: str
    positions: dict[str, MovedPosition]


class Worker(Model, frozen=True, kw_only=True):
    """The state of one worker.

    Attributes:
        status: In the words of Kubernetes, for example `Running` or `CrashLoopBackOff`.
        reason: Why the worker has this status.
    """

    name: str
    status: str
    is_ready: bool
    is_crash_looping: bool
    is_oom_killed: bool
    restart_count: int
    start_time: datetime
    reason: str = ""


class WorkersHealth(Model, frozen=True, kw_only=True):
    """How many workers are in which state."""

    total_workers: int
    healthy_workers: int
    unhealthy_workers: int
    crashing_workers: int
    oom_killed_workers: int
    workers: list[Worker]


class Stats(Model, frozen=True, kw_only=True):
    """The health and the progress of the workers.

    Attributes:
        lag: Records in the source that are not processed yet; None when it is unknown.
        last_progress_at: The time of the last committed batch.
    """

    workers_health: WorkersHealth
    lag: int | None = None
    last_progress_at: datetime | None = None
    scaling: WorkerScaling | None = None


class LogLine(Model, frozen=True, kw_only=True):
    """A log line of a worker, or a `console.log` line of a script.

    Attributes:
        source: `worker` or `script`.
        level: `debug`, `info`, `warning` or `error`.
    """

    time: datetime
    worker: str
    source: str
    level: str
    message: str


class Logs(Model, frozen=True, kw_only=True):
    """The newest log lines, newest first."""

    lines: list[LogLine]
