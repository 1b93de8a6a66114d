"""Configuration of the transforms: one model per `type`."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headwater.model.dataset import MAX_VALUES_PER_REQUEST, VALUE_SCHEMA
from headwater.model.text import Text

MAX_TRANSFORMS = 50
MAX_SCRIPT_BYTES = 1 << 20
MAX_EXPRESSION_CHARS = 4096
MAX_OUTPUTS_PER_RECORD = 10
MAX_OUTPUT_BYTES = 1_000_000


def _script_size(script: str) -> str:
    if len(script.encode()) > MAX_SCRIPT_BYTES:
        raise ValueError(f"must be at most {MAX_SCRIPT_BYTES} bytes of UTF-8")
    return script


Script = Annotated[Text, AfterValidator(_script_size), Field(json_schema_extra={"format": "javascript"})]


class V8Transform(BaseModel):
    """Runs a JavaScript function `process(record)` in the sandbox."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: str = ""
    type: Literal["v8"]
    script: Script = Field(description="JavaScript that defines a function `process(record)` (or `transform`).")


class RedisSetFilterTransform(BaseModel):
    """Keeps a record when the selected value is in the transform's filter set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: str = ""
    type: Literal["redis_set_filter"]
    filter_expr: Text = Field(
        max_length=MAX_EXPRESSION_CHARS,
        json_schema_extra={"format": "filter-expression"},
        description="Selects the tested value, for example `root = this.token_address`.",
    )


Transform = Annotated[V8Transform | RedisSetFilterTransform, Field(discriminator="type")]


class NewRedisSetFilterTransform(RedisSetFilterTransform):
    """A filter as it is sent when it is new: with the values that its set starts with."""

    set_values: list[Annotated[str, Field(json_schema_extra=VALUE_SCHEMA)]] | None = Field(
        default=None,
        description="The first values of the new filter's set. Never returned.",
        repr=False,
        json_schema_extra={"writeOnly": True, "maxItems": MAX_VALUES_PER_REQUEST},
    )


NewTransform = Annotated[V8Transform | NewRedisSetFilterTransform, Field(discriminator="type")]
