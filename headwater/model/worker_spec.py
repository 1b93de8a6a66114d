"""The spec of a worker set, the reading plan of a worker, and the heartbeats of workers."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.flow import DeliveryMode
from headwater.model.kafka_security import KafkaSecurity
from headwater.model.metric import CountType, TimeType
from headwater.model.sink import Compression
from headwater.model.transforms import Transform


class KafkaAccess(KafkaSecurity):
    """The address of a Kafka cluster, and how to authenticate there."""

    bootstrap_servers: str


class PubSubAccess(BaseModel):
    """How to reach Google Pub/Sub.

    Attributes:
        project: The project of the subscriptions.
        credentials_file: The credentials of a service account; empty means Application Default Credentials.
        endpoint: `host:port` of an emulator, which uses neither credentials nor encryption; empty means Google's.
    """

    model_config = ConfigDict(frozen=True)

    project: str
    credentials_file: str = ""
    endpoint: str = ""


class PubSubPull(PubSubAccess):
    """A subscription to read.

    Attributes:
        subscription: The full name, `projects/P/subscriptions/S`.
        deduplicate: Whether a worker drops a message whose value equals the last one with the same natural key.
    """

    subscription: str
    deduplicate: bool = False


class SinkSpec(BaseModel):
    """A sink and the topic that it writes to.

    Attributes:
        partitions: The number of partitions of the topic; None means as many as the source has.
        compression: The compression of the topic's records; None means the default of workers.
        is_compacted: Whether Kafka compacts the topic; a compacted topic rejects records without a key.
        retention_ms: The retention of the topic; None means the default of all outputs.
    """

    model_config = ConfigDict(frozen=True)

    uid: str
    name: str
    type: str
    topic: str
    partitions: int | None = None
    compression: Compression | None = None
    is_compacted: bool = False
    retention_ms: int | None = None


class WorkerSpec(BaseModel):
    """All settings of a worker. A worker connects to Kafka and the set store, never to the SQL database.

    Attributes:
        chain: The chain of the stream.
        entity: The entity of the stream.
        source: The access to the source; None means the Kafka cluster of this installation, `kafka`.
        event_time: The field of the stream's records that contains the event time, if there is one.
        slots: How many workers the deployment has.
    """

    model_config = ConfigDict(frozen=True)

    deployment_id: str
    config_id: str
    owner: str
    revision: int
    source_topic: str
    source_group: str
    transforms: list[Transform]
    sinks: list[SinkSpec]
    dead_letter_topic: str
    kafka: KafkaAccess
    redis_url: str
    chain: str = ""
    entity: str = ""
    source: KafkaAccess | PubSubPull | None = None
    event_time: str | None = None
    slots: int = 1
    jit: bool = False
    delivery: DeliveryMode = "at_least_once"


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """The workers of one deployment. They share one spec; each has its own slot, from 0 to `slots` - 1.

    Attributes:
        spec_hash: The hash of the spec: it changes with every change of the spec.
    """

    deployment_id: str
    slots: int
    spec: WorkerSpec = field(repr=False)
    spec_hash: str


FENCED_STATUS = 3
"""The exit status of a worker that another worker has fenced."""
JOIN = b"join\n"
"""The supervisor's message to a worker: join the consumer group and start to read."""
LEAVE = b"leave\n"
"""The supervisor's message before it stops a worker without a successor: leave the consumer group."""


class PartitionPosition(NamedTuple):
    """A partition of the source, and the committed position in it: the next offset to read."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the position with this string form, `partition@offset`. Raises ValueError."""
        partition, _, offset = text.partition("@")
        return cls(int(partition), int(offset))


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """How a worker reads its partitions after workers of its slot were killed for memory.

    Attributes:
        read_alone: Whether the worker first reads its partitions one at a time, each without the others.
        quarantined: Partitions that the worker does not read while their committed position is this one.
    """

    read_alone: bool = False
    quarantined: tuple[PartitionPosition, ...] = ()


READ_ALL = ReadingPlan()
"""The plan to read all partitions at the same time."""


class IsolationStatus(BaseModel):
    """The progress of a worker that has a ReadingPlan.

    Attributes:
        alone: The only partition that the worker reads now, with its committed position; None when it reads several.
        is_over: Whether all partitions that had to be read alone were read.
        quarantined: The partitions that the worker does not read.
    """

    model_config = ConfigDict(frozen=True)

    alone: PartitionPosition | None = None
    is_over: bool = False
    quarantined: list[PartitionPosition] = Field(default_factory=list)


class WorkerLogLine(BaseModel):
    """A log line of a worker, or a line that a script wrote with `console.log`."""

    model_config = ConfigDict(frozen=True)

    time: datetime
    source: Literal["worker", "script"]
    level: str
    message: str


class Heartbeat(BaseModel):
    """The state of a worker. It sends one as a JSON line each second and at every change of state.

    Attributes:
        state: One of
            "starting",
            "prepared": the worker can join its consumer group, and waits for the message JOIN,
            "ready",
            "waiting": a store or Kafka is unavailable,
            "crashing": many records crash the process of the scripts,
            "draining": the worker finishes its batches before it ends,
            "failed": the worker has failed; this is its last heartbeat.
        spec_hash: The hash of the spec that the worker runs.
        reason: Why the worker is in this state, as a sentence.
        progress: A counter of loop iterations and records read. A worker whose counter does not change is stuck.
        committed_batches: How many batches the worker has committed since its start.
        isolation: None for a worker that reads all of its partitions, and for one without partitions.
        counters: The counts of committed records since the start.
        times: Histograms of the times of committed records since the start, bin → count (model/metric.py).
        logs: The log lines since the last heartbeat.
    """

    model_config = ConfigDict(frozen=True)

    state: str
    spec_hash: str
    reason: str = ""
    progress: int = 0
    committed_batches: int = 0
    isolation: IsolationStatus | None = None
    counters: dict[CountType, int] = Field(default_factory=dict)
    times: dict[TimeType, dict[int, int]] = Field(default_factory=dict)
    logs: list[WorkerLogLine] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """The last heartbeat of a worker.

    Attributes:
        worker: The name of the worker.
        spec: The spec of its worker set.
        heartbeat: None while the worker does not run.
        is_ready: Whether the worker counts as ready in `deploy/stats`.
    """

    worker: str
    spec: WorkerSpec = field(repr=False)
    heartbeat: Heartbeat | None
    is_ready: bool
