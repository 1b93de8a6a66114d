"""What a worker is told: one document per worker set, one slot number per worker."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.flow import DeliveryMode
from headwater.model.kafka_security import KafkaSecurity
from headwater.model.metric import CountType, TimeType
from headwater.model.sink import Compression
from headwater.model.transform import Transform


class KafkaAccess(KafkaSecurity):
    """How to reach a Kafka cluster, and how to authenticate there."""

    bootstrap_servers: str


class PubSubAccess(BaseModel):
    """How to reach Google Pub/Sub. project: where subscriptions are.

    credentials_file: of a service account; empty means the machine's own (Application Default Credentials). endpoint:
    `host:port` of an emulator, without credentials and encryption; empty means Google's.
    """

    model_config = ConfigDict(frozen=True)

    project: str
    credentials_file: str = ""
    endpoint: str = ""


class PubSubPull(PubSubAccess):
    """A subscription to read.

    Attributes:
        subscription: The whole name, `projects/P/subscriptions/S`.
        deduplicate: Whether a worker drops a message that equals the last one of its natural key.
    """

    subscription: str
    deduplicate: bool = False


class SinkSpec(BaseModel):
    """A sink and the topic that it writes to.

    Attributes:
        partitions: The topic's number of partitions; None means as many as the source has.
        compression: The codec of the topic's records; None means the workers' own choice.
        is_compacted: Whether Kafka compacts the topic, which then takes no record without a key.
        retention_ms: How long the topic keeps a record; None means as long as for all outputs.
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
    """All that a worker needs. It needs Kafka and the set store, never SQL.

    chain, entity: of the stream. source: where to read when that is not the own cluster. event_time: the member of the
    stream's records that has their own time, if there is one.
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
    """The workers of one deployment. spec_hash changes when anything in the spec does."""

    deployment_id: str
    slots: int
    spec: WorkerSpec = field(repr=False)
    spec_hash: str


FENCED_STATUS = 3
"""The exit status of a worker whose place another one took."""
JOIN = b"join\n"
"""What a supervisor writes to a worker's probe to let it read records."""
LEAVE = b"leave\n"
"""What it writes before it ends a worker whose place nobody takes."""


class PartitionPosition(NamedTuple):
    """A partition of the source, and the committed position of its group there: the next offset to read."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` writes. Raises ValueError."""
        partition, _, offset = text.partition("@")
        return cls(int(partition), int(offset))


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """How a worker reads its partitions, after workers of its slot were killed for memory.

    Attributes:
        read_alone: Whether the worker reads each of its partitions alone before it reads all of them.
        quarantined: Partitions that the worker does not read while the group's position is the given one.
    """

    read_alone: bool = False
    quarantined: tuple[PartitionPosition, ...] = ()


READ_ALL = ReadingPlan()
"""The plan of a worker that reads all of its partitions at once."""


class IsolationStatus(BaseModel):
    """What a worker with a ReadingPlan does with its partitions.

    Attributes:
        alone: The partition that is read alone now, and its committed position.
        is_over: Whether no partition waits for its turn to be read alone.
        quarantined: The partitions that are not read.
    """

    model_config = ConfigDict(frozen=True)

    alone: PartitionPosition | None = None
    is_over: bool = False
    quarantined: list[PartitionPosition] = Field(default_factory=list)


class WrittenLine(BaseModel):
    """A line of the worker itself, or of a script's `console.log`."""

    model_config = ConfigDict(frozen=True)

    time: datetime
    source: Literal["worker", "script"]
    level: str
    message: str


class Heartbeat(BaseModel):
    """What a worker writes to its probe, one JSON line a second and at every change of state.

    state: "starting", "prepared" (it could join at once, and waits until it may), "ready", "waiting" (a store or
    broker is away), "crashing" (many records end the scripts' process), "draining", "failed" (the last one, with the
    reason). progress counts turns of the loop and records read; a worker whose progress stands still is stuck.
    counters, times: of committed records, since the start; times are histograms, bin → count (model/metric.py).
    isolation: None for a worker that reads all of its partitions, and before it has any.
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
    logs: list[WrittenLine] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a worker said last. heartbeat: None while it does not run. is_ready: as in `deploy/stats`."""

    worker: str
    spec: WorkerSpec = field(repr=False)
    heartbeat: Heartbeat | None
    is_ready: bool
