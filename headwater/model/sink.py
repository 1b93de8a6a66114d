"""Configuration of the sinks: one model per `type`."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.sent import SentModel
from headwater.model.text import ReturnedOnly

MAX_SINKS = 10
SINK_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"
DEAD_LETTER_NAME = "dlq"


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


class KafkaSink(_Stored):
    """Writes the records to a Kafka topic of the pipeline's own."""

    type: Literal["kafka"]


class PricesSink(_Stored):
    """Takes the records as ticks of the installation's token prices. Needs the scope `prices:write`."""

    type: Literal["prices"]


class NewKafkaSink(_New):
    """A Kafka sink as it is sent."""

    type: Literal["kafka"]


class NewPricesSink(_New):
    """A prices sink as it is sent."""

    type: Literal["prices"]


Sink = Annotated[KafkaSink | PricesSink, Field(discriminator="type")]
NewSink = Annotated[NewKafkaSink | NewPricesSink, Field(discriminator="type")]


def feed_prices(sinks: Iterable[Sink | NewSink]) -> bool:
    """True when one is a prices sink."""
    return any(sink.type == "prices" for sink in sinks)
