"""Configuration of the sinks: one model per `type`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic.json_schema import SkipJsonSchema

from headwater.model.sent import SentModel
from headwater.model.text import ReturnedOnly, absent

MAX_SINKS = 10
SINK_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"
DEAD_LETTER_NAME = "dlq"

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CleanupPolicy = Literal["delete", "compact", "compact,delete", "delete,compact"]


@dataclass(frozen=True, slots=True)
class SinkLimits:
    """The operator's upper bounds for the members of a Kafka sink.

    Attributes:
        partitions: Partitions of a topic.
        retention_days: Days that a topic keeps a record.
        retention_bytes: Bytes that a topic keeps in each partition.
    """

    partitions: int = 64
    retention_days: int = 30
    retention_bytes: int = 10 << 30


class _Sink(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=SINK_NAME_PATTERN,
        description="Names a Kafka sink's topic, `flow.<config_id>.<name>`; a prices sink has none. `dlq` is taken.",
        json_schema_extra={"not": {"pattern": "^[Dd][Ll][Qq]$"}},
    )


class _Stored(_Sink):
    uid: str = Field(description="Generated. It stays while the name stays.", json_schema_extra={"readOnly": True})


class _New(_Sink, SentModel):
    uid: ReturnedOnly = None


def _without_fraction(value: object) -> object:
    """A whole number as JSON may write it: 2.0 is 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Strict(), Field(ge=1), BeforeValidator(_without_fraction)]


class TopicMembers(BaseModel):
    """The members of a Kafka sink that set up its topic. Members that are not set are left out of answers."""

    partitions: Count | None = Field(
        default=None,
        description="Partitions of the topic; default: as many as the source has. A record of the source's partition "
        "p goes to partition p modulo this number. The number may grow, and never shrinks.",
        exclude_if=absent,
    )
    retention_ms: Count | None = Field(
        default=None,
        description="How long the topic keeps a record, in milliseconds.",
        exclude_if=absent,
    )
    retention_bytes: Count | None = Field(
        default=None,
        description="How many bytes the topic keeps in each partition, about.",
        exclude_if=absent,
    )
    compression: Compression | None = Field(
        default=None, description="How the records are compressed; default: `lz4`.", exclude_if=absent
    )
    cleanup_policy: CleanupPolicy | None = Field(
        default=None,
        description="What Kafka does with old records; default: `delete`. With `compact` Kafka keeps the newest record "
        "of each key, and a record without a key is a dead letter.",
        exclude_if=absent,
    )

    @property
    def is_compacted(self) -> bool:
        """True when Kafka compacts the topic, which therefore takes no record without a key."""
        return "compact" in (self.cleanup_policy or "")


TOPIC_MEMBERS = tuple(TopicMembers.model_fields)
"""The names of the members that set up the topic of a Kafka sink."""


class KafkaSink(TopicMembers, _Stored):
    """Writes the records to a Kafka topic of the pipeline's own."""

    type: Literal["kafka"]


class PricesSink(_Stored):
    """Takes the records as ticks of the installation's token prices. Needs the scope `prices:write`."""

    type: Literal["prices"]


class NewKafkaSink(TopicMembers, _New):
    """A Kafka sink as it is sent."""

    type: Literal["kafka"]


def _refuse_topic_member(value: object) -> None:
    if value is not None:
        raise ValueError("is a member of Kafka sinks only: a prices sink has no topic of its own; leave it out")


TopicMemberOfOthers = Annotated[SkipJsonSchema[Any], AfterValidator(_refuse_topic_member), Field(exclude=True)]
"""A member of Kafka sinks, which a sink of another type refuses with a sentence."""


class NewPricesSink(_New):
    """A prices sink as it is sent."""

    type: Literal["prices"]
    partitions: TopicMemberOfOthers = None
    retention_ms: TopicMemberOfOthers = None
    retention_bytes: TopicMemberOfOthers = None
    compression: TopicMemberOfOthers = None
    cleanup_policy: TopicMemberOfOthers = None


Sink = Annotated[KafkaSink | PricesSink, Field(discriminator="type")]
NewSink = Annotated[NewKafkaSink | NewPricesSink, Field(discriminator="type")]


def feed_prices(sinks: Iterable[Sink | NewSink]) -> bool:
    """True when one is a prices sink."""
    return any(sink.type == "prices" for sink in sinks)
