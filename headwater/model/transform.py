"""Configuration of the transforms: one model per `type`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from headwater.model.dataset import MAX_VALUES_PER_REQUEST, VALUE_SCHEMA
from headwater.model.sent import SentModel
from headwater.model.text import ReturnedOnly, Text, absent

MAX_TRANSFORMS = 50
MAX_SCRIPT_BYTES = 1 << 20
MAX_EXPRESSION_CHARS = 4096
MAX_OUTPUTS_PER_RECORD = 1000
MAX_OUTPUT_BYTES = 1_000_000
MAX_OUTPUTS_BYTES = 8_000_000
"""Of all outputs of one record together."""
TRANSFORM_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"
_NUMBERS = (1 << 61) - 1
"""A prime. Numbers that 18 scripts in a row make stay below it; those of more are spread over all below it."""
_COUNTED_PLACES = 10
_SPREAD_PLACES = 1000
"""Not the limit of outputs, which may grow: another factor would give stored outputs other numbers."""
_POWER = 19
"""It has no factor in common with _NUMBERS - 1, so that no two numbers have the same power."""
_SPREAD = 1_152_921_504_606_846_883
"""Where the other places begin, so that their powers are spread from the first one on."""


def output_number(record: int, place: int) -> int:
    """The number of a record's output: record, the record's own number, and the output's place among its outputs.

    Up to ten outputs are counted through; those behind them get numbers that are spread over all below _NUMBERS.
    """
    if place < _COUNTED_PLACES:
        return (record * _COUNTED_PLACES + place) % _NUMBERS
    return pow(_SPREAD + record * _SPREAD_PLACES + place, _POWER, _NUMBERS)


def _script_size(script: str) -> str:
    if len(script.encode()) > MAX_SCRIPT_BYTES:
        raise ValueError(f"must be at most {MAX_SCRIPT_BYTES} bytes of UTF-8")
    return script


Script = Annotated[Text, AfterValidator(_script_size)]


class CheckedScript(NamedTuple):
    """A script that can be saved. javascript: the script that was made from it; None when it runs as it is."""

    warnings: list[str]
    javascript: str | None = None


@dataclass(frozen=True, slots=True)
class KnownTransform:
    """What a stored transform is recognised by. content: the expression of a filter, or a script."""

    uid: str
    type: str
    name: str | None
    content: str


class _Named(BaseModel):
    name: str | None = Field(
        default=None,
        pattern=TRANSFORM_NAME_PATTERN,
        description="Your own name of the transform, unique in its configuration. PUT finds the transform by it. "
        "Left out, a stored name stays; null removes it.",
        exclude_if=absent,
    )


class _V8(_Named):
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["v8"]
    script: Script = Field(
        description="JavaScript or TypeScript that defines or exports a function `process(record)` (or `transform`), "
        "at most 1 MiB."
    )

    @property
    def content(self) -> str:
        """What the transform does: its script."""
        return self.script


class _RedisSetFilter(_Named):
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["redis_set_filter"]
    filter_expr: Text = Field(
        max_length=MAX_EXPRESSION_CHARS,
        description="Selects the tested value, for example `root = this.token_address`.",
    )

    @property
    def content(self) -> str:
        """What the transform does: its expression."""
        return self.filter_expr


class V8Transform(_V8):
    """Runs a JavaScript function `process(record)` in the sandbox."""

    uid: str
    # Made from a module or from TypeScript when it was saved; None for a script that runs as it is. No answer shows it.
    javascript: SkipJsonSchema[str | None] = Field(default=None, exclude_if=absent, repr=False)

    @property
    def runnable_script(self) -> str:
        """What the sandbox loads."""
        return self.script if self.javascript is None else self.javascript

    def as_sent(self) -> Self:
        """Without what was made from the script."""
        return self.model_copy(update={"javascript": None})


class RedisSetFilterTransform(_RedisSetFilter):
    """Keeps a record when the selected value is in the transform's filter set."""

    uid: str


Transform = Annotated[V8Transform | RedisSetFilterTransform, Field(discriminator="type")]


def feeds_script(transforms: Sequence[V8Transform | RedisSetFilterTransform], place: int) -> bool:
    """Whether a script follows the transform at a place of a pipeline, next to it or behind filters."""
    return any(transform.type == "v8" for transform in transforms[place + 1 :])


class _Sent(SentModel):
    """What every transform may carry when it is sent."""

    uid: str | None = Field(
        default=None, description="Names the transform that this one updates. A new one gets its own; POST ignores it."
    )
    warnings: ReturnedOnly = None


class NewV8Transform(_V8, _Sent):
    """A script as it is sent."""


class NewRedisSetFilterTransform(_RedisSetFilter, _Sent):
    """A filter as it is sent; a new one carries the values that its set starts with."""

    set_values: list[Annotated[str, Field(json_schema_extra=VALUE_SCHEMA)]] | None = Field(
        default=None,
        description="The first values of a new filter's set; ignored for a filter that exists. Never returned.",
        repr=False,
        json_schema_extra={"writeOnly": True, "maxItems": MAX_VALUES_PER_REQUEST},
    )


NewTransform = Annotated[NewV8Transform | NewRedisSetFilterTransform, Field(discriminator="type")]
NewTransforms = Annotated[list[NewTransform], Field(min_length=1, max_length=MAX_TRANSFORMS)]
"""The list that replaces a configuration's transforms."""
