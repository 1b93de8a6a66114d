"""The configurations of sinks: for each `type`, a stored model and a request model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic.json_schema import SkipJsonSchema

from headwater.model.fields import ReturnedOnly, is_none, models_by_type
from headwater.model.request_model import RequestModel

MAX_SINKS = 10
SINK_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"
DEAD_LETTER_NAME = "dlq"

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CleanupPolicy = Literal["delete", "compact", "compact,delete", "delete,compact"]


@dataclass(frozen=True, slots=True)
class SinkLimits:
    """The operator's maximum values for the fields of a Kafka sink.

    Attributes:
        partitions: The maximum number of partitions of a topic.
        retention_days: The maximum number of days for which a topic keeps a record.
        retention_bytes: The maximum number of bytes that a topic keeps in each partition.
    """

    partitions: int = 64
    retention_days: int = 30
    retention_bytes: int = 10 << 30


class _Sink(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=SINK_NAME_PATTERN,
        description="Names a Kafka sink's topic, `flow.<config_id>.<name>`; a prices sink has none. `dlq` is reserved.",
        json_schema_extra={"not": {"pattern": "^[Dd][Ll][Qq]$"}},
    )


class _StoredSink(_Sink):
    uid: str = Field(
        description="Generated. It stays the same while the name stays the same.", json_schema_extra={"readOnly": True}
    )


class _NewSink(_Sink, RequestModel):
    uid: ReturnedOnly = None


def _without_fraction(value: object) -> object:
    """Convert a float without a fraction to an integer, because a JSON text may have 2.0 for 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


PositiveInt = Annotated[int, Strict(), Field(ge=1), BeforeValidator(_without_fraction)]


class TopicFields(BaseModel):
    """The fields of a Kafka sink that configure its topic.

    Responses omit fields that are not set.
    """

    partitions: PositiveInt | None = Field(
        default=None,
        description="Partitions of the topic; default: as many as the source has. A record of the source's partition "
        "p goes to partition p modulo this number. The number can be increased, but not decreased.",
        exclude_if=is_none,
    )
    retention_ms: PositiveInt | None = Field(
        default=None,
        description="How long the topic keeps a record, in milliseconds.",
        exclude_if=is_none,
    )
    retention_bytes: PositiveInt | None = Field(
        default=None,
        description="Approximately how many bytes the topic keeps per partition.",
        exclude_if=is_none,
    )
    compression: Compression | None = Field(
        default=None, description="How the records are compressed; default: `lz4`.", exclude_if=is_none
    )
    cleanup_policy: CleanupPolicy | None = Field(
        default=None,
        description="What Kafka does with old records; default: `delete`. With `compact` Kafka keeps the newest record "
        "of each key, and a record without a key is a dead letter.",
        exclude_if=is_none,
    )

    @property
    def is_compacted(self) -> bool:
        """Whether Kafka compacts the topic. It then rejects records without a key."""
        return "compact" in (self.cleanup_policy or "")


TOPIC_FIELDS = tuple(TopicFields.model_fields)
"""The names of the fields that configure the topic of a Kafka sink."""


class TopicSink(TopicFields, _StoredSink):
    """The base class of sinks that have a topic of their own, such as KafkaSink.

    The controller creates, changes and removes the topic.
    """


class KafkaSink(TopicSink):
    """Writes the records to a Kafka topic that belongs to the sink."""

    type: Literal["kafka"]


class PricesSink(_StoredSink):
    """Writes the records as ticks of the installation's token prices.

    Needs the scope `prices:write`.
    """

    type: Literal["prices"]


class NewTopicSink(TopicFields, _NewSink):
    """The base class of sinks in a request that have a topic of their own."""


class NewKafkaSink(NewTopicSink):
    """A Kafka sink in a request."""

    type: Literal["kafka"]


def _reject_topic_field(value: object) -> None:
    if value is not None:
        raise ValueError("is a field of Kafka sinks only: a prices sink has no topic of its own; leave it out")


RejectedTopicField = Annotated[SkipJsonSchema[Any], AfterValidator(_reject_topic_field), Field(exclude=True)]
"""A field that only Kafka sinks have. A sink of another type rejects the field with a clear error."""


class NewPricesSink(_NewSink):
    """A prices sink in a request."""

    type: Literal["prices"]
    partitions: RejectedTopicField = None
    retention_ms: RejectedTopicField = None
    retention_bytes: RejectedTopicField = None
    compression: RejectedTopicField = None
    cleanup_policy: RejectedTopicField = None


Sink = Annotated[KafkaSink | PricesSink, Field(discriminator="type")]
NewSink = Annotated[NewKafkaSink | NewPricesSink, Field(discriminator="type")]
SINK_MODELS: dict[str, type[Sink]] = models_by_type(Sink)


def has_prices_sink(sinks: Iterable[Sink | NewSink]) -> bool:
    """Whether one of the sinks is a prices sink."""
    return any(sink.type == "prices" for sink in sinks)
