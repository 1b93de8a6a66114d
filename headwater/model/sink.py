"""Configuration of the sinks: one model per `type`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_SINKS = 10
SINK_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"
DEAD_LETTER_NAME = "dlq"


class KafkaSink(BaseModel):
    """Writes the records to a Kafka topic of the pipeline's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: str = Field(default="", description="Generated.", json_schema_extra={"readOnly": True})
    type: Literal["kafka"]
    name: str = Field(
        pattern=SINK_NAME_PATTERN,
        description="Names the topic: `flow.<config_id>.<name>`. `dlq` is taken.",
        json_schema_extra={"not": {"pattern": "^[Dd][Ll][Qq]$"}},
    )


Sink = KafkaSink
