"""The spec of a worker set: what its workers read, run and write."""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.access import KafkaAccess, PubSubAccess
from headwater.model.fields import is_none
from headwater.model.flow import DeliveryMode
from headwater.model.redrive import RedriveSpec
from headwater.model.sink import Compression
from headwater.model.transforms import TransformConfig


class PubSubPull(PubSubAccess):
    """A Pub/Sub subscription that a worker reads.

    Attributes:
        subscription: The full name, `projects/P/subscriptions/S`.
        deduplicate: Whether the worker drops a message that equals the last message with the same natural key.
    """

    subscription: str
    deduplicate: bool = False


class SinkSpec(BaseModel):
    """A sink, and the topic to which the sink writes.

    Attributes:
        partitions: The number of partitions of the topic; None means as many as the source has.
        compression: The compression of the topic's records; None means the default of workers.
        is_compacted: Whether Kafka compacts the topic. A compacted topic rejects records without a key.
        retention_ms: The retention of the topic; None means the default of all output topics.
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

    A worker connects to Kafka and to Redis, never to the SQL database.

    Attributes:
        source_topic: The topic of the source; for Pub/Sub, the name of the topic or of the subscription.
        source_group: The consumer group with which the worker reads the source topic.
        kafka: How to reach the Kafka cluster of this installation.
        redis_url: The URL of the sets and the metrics.
        chain: The chain of the stream.
        entity: The entity of the stream.
        source: How to reach the source; None means that the source is in the cluster of `kafka`.
        event_time_field: The field of the stream's records that contains the event time, if there is one.
        max_slots: The greatest number of slots that the deployment may have; `WorkerSet.slots` is their number now. In
            JSON the name is `slots`, so that an upgrade does not change the hashes of specs.
        jit: Whether V8 runs scripts with its JIT compiler.
        redrive: The redrive for which the worker reads the dead-letter topic; None for the workers of a pipeline. Their
            specs omit the field, so that an upgrade from a version without redrives does not change their hashes.
    """

    model_config = ConfigDict(frozen=True, validate_by_name=True, serialize_by_alias=True)

    deployment_id: str
    config_id: str
    owner: str
    revision: int
    source_topic: str
    source_group: str
    transforms: list[TransformConfig]
    sinks: list[SinkSpec]
    dead_letter_topic: str
    kafka: KafkaAccess
    redis_url: str
    chain: str = ""
    entity: str = ""
    source: KafkaAccess | PubSubPull | None = None
    event_time_field: str | None = None
    max_slots: int = Field(default=1, validation_alias="slots", serialization_alias="slots")
    jit: bool = False
    delivery: DeliveryMode = "at_least_once"
    redrive: RedriveSpec | None = Field(default=None, exclude_if=is_none)


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """The workers of a deployment, or the worker of one of its redrives.

    All workers have the same spec, and each has a slot of its own.

    Attributes:
        id: The id of the deployment, or the id that `redrive_worker_set_id` returns.
        slots: The number of workers now. The slots have the numbers 0 to `slots` - 1.
        spec: The spec of each worker.
        spec_hash: The hash of the spec, which changes with every change of the spec.
    """

    id: str
    slots: int
    spec: WorkerSpec = field(repr=False)
    spec_hash: str
