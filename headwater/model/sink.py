"""Configuration of the sinks: one model per `type`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from headwater.model.text import ReturnedOnly

MAX_SINKS = 10
SINK_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"
DEAD_LETTER_NAME = "dlq"


class _Kafka(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["kafka"]
    name: str = Field(
        pattern=SINK_NAME_PATTERN,
        description="Names the topic: `flow.<config_id>.<name>`. `dlq` is taken.",
        json_schema_extra={"not": {"pattern": "^[Dd][Ll][Qq]$"}},
    )


class KafkaSink(_Kafka):
    """Writes the records to a Kafka topic of the pipeline's own."""

    uid: str = Field(description="Generated. It stays while the name stays.", json_schema_extra={"readOnly": True})


class NewKafkaSink(_Kafka):
    """A sink as it is sent."""

    uid: ReturnedOnly = None


Sink = KafkaSink
NewSink = NewKafkaSink
