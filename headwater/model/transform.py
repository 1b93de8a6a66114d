"""Configuration of the transforms: one model per `type`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_TRANSFORMS = 50
MAX_SCRIPT_BYTES = 1 << 20
MAX_EXPRESSION_CHARS = 4096
MAX_OUTPUTS_PER_RECORD = 10
MAX_OUTPUT_BYTES = 1_000_000


class V8Transform(BaseModel):
    """Runs a JavaScript function `process(record)` in the sandbox."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: str = ""
    type: Literal["v8"]
    script: str = Field(description="JavaScript that defines a function `process(record)` (or `transform`).")


class RedisSetFilterTransform(BaseModel):
    """Keeps a record when the selected value is in the transform's filter set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: str = ""
    type: Literal["redis_set_filter"]
    filter_expr: str = Field(description="Selects the tested value, for example `root = this.token_address`.")


Transform = Annotated[V8Transform | RedisSetFilterTransform, Field(discriminator="type")]
