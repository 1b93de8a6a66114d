"""The spec of a worker set: what its workers read, run and write."""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.flow import DeliveryMode
from headwater.model.sink import Compression
from headwater.model.transforms import Transform


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
    """All settings of a worker.

    A worker connects to Kafka and the set store, never to the SQL database.

    Attributes:
        chain: The chain of the stream.
        entity: The entity of the stream.
        source: The access to the source; None means the Kafka cluster of this installation, `kafka`.
        event_time_field: The field of the stream's records that contains the event time, if there is one.
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
    event_time_field: str | None = None
    slots: int = 1
    jit: bool = False
    delivery: DeliveryMode = "at_least_once"


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """The workers of one deployment.

    They share one spec; each has its own slot, from 0 to `slots` - 1.

    Attributes:
        spec_hash: The hash of the spec: it changes with every change of the spec.
    """

    deployment_id: str
    slots: int
    spec: WorkerSpec = field(repr=False)
    spec_hash: str
