"""Configuration of the transforms: a stored model and a request model per `type`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from headwater.model.members import ReturnedOnly, Text, is_none
from headwater.model.request_model import RequestModel
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST, VALUE_SCHEMA

MAX_TRANSFORMS = 50
MAX_SCRIPT_BYTES = 1 << 20
MAX_EXPRESSION_CHARS = 4096
MAX_OUTPUTS_PER_RECORD = 1000
MAX_OUTPUT_BYTES = 1_000_000
MAX_OUTPUTS_BYTES = 8_000_000
"""The maximum size of all outputs of one record together."""
TRANSFORM_NAME_PATTERN = r"^[A-Za-z0-9._-]{1,100}$"
_MODULUS = (1 << 61) - 1
"""A prime modulus. The output numbers of up to 18 chained scripts stay below it; with more scripts they wrap around."""
_SEQUENTIAL_OUTPUTS = 10
_HASHED_OUTPUTS = 1000
"""A constant of its own, and not MAX_OUTPUTS_PER_RECORD: if that limit were raised, the same outputs would get other
numbers, and consumers could not recognise repeated outputs.
"""
_EXPONENT = 19
"""It is coprime to _MODULUS - 1, so different numbers have different powers."""
_HASH_OFFSET = 1_152_921_504_606_846_883
"""The offset of the hashed outputs, so that even small numbers are spread over the whole range."""


def output_index(record: int, position: int) -> int:
    """Return the index of an output in the header `headwater-src`.

    record: the index of the input record. position: the position of the output among the outputs of the record.
    The first ten outputs of a record have consecutive numbers. Later outputs have hashed numbers below _MODULUS.
    """
    if position < _SEQUENTIAL_OUTPUTS:
        return (record * _SEQUENTIAL_OUTPUTS + position) % _MODULUS
    return pow(_HASH_OFFSET + record * _HASHED_OUTPUTS + position, _EXPONENT, _MODULUS)


def _script_size(script: str) -> str:
    if len(script.encode()) > MAX_SCRIPT_BYTES:
        raise ValueError(f"must be at most {MAX_SCRIPT_BYTES} bytes of UTF-8")
    return script


Script = Annotated[Text, AfterValidator(_script_size)]


class CheckedScript(NamedTuple):
    """The result of a successful check.

    Attributes:
        javascript: The compiled JavaScript; None when the script runs unchanged.
    """

    warnings: list[str]
    javascript: str | None = None


@dataclass(frozen=True, slots=True)
class TransformIdentity:
    """The members of a stored transform by which a transform in a request is matched to it.

    content: the expression of a filter, or the script.
    """

    uid: str
    type: str
    name: str | None
    content: str


class _Named(BaseModel):
    name: str | None = Field(
        default=None,
        pattern=TRANSFORM_NAME_PATTERN,
        description="Your own name of the transform, unique in its configuration. PUT finds the transform by it. "
        "When omitted, a stored name is kept; null removes it.",
        exclude_if=is_none,
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
        """The script, as the part of the transform that decides what it does."""
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
        """The expression, as the part of the transform that decides what it does."""
        return self.filter_expr


class V8Transform(_V8):
    """Runs a JavaScript function `process(record)` in the sandbox."""

    uid: str
    # Compiled from a module or from TypeScript when the script was saved; None when the script runs unchanged. It is
    # never part of a response.
    javascript: SkipJsonSchema[str | None] = Field(default=None, exclude_if=is_none, repr=False)

    @property
    def runnable_script(self) -> str:
        """The script that the sandbox loads."""
        return self.script if self.javascript is None else self.javascript

    def without_compiled_script(self) -> Self:
        """Return the transform without the JavaScript that was compiled from its script."""
        return self.model_copy(update={"javascript": None})


class RedisSetFilterTransform(_RedisSetFilter):
    """Keeps a record when the selected value is in the transform's filter set."""

    uid: str


Transform = Annotated[V8Transform | RedisSetFilterTransform, Field(discriminator="type")]


def output_to_script(transforms: Sequence[V8Transform | RedisSetFilterTransform], position: int) -> bool:
    """Whether any transform after the one at this position is a script."""
    return any(transform.type == "v8" for transform in transforms[position + 1 :])


class _Sent(RequestModel):
    """The members that every transform in a request may have."""

    uid: str | None = Field(
        default=None,
        description="The uid of the transform that this one updates. A new transform gets a new uid; POST ignores it.",
    )
    warnings: ReturnedOnly = None


class NewV8Transform(_V8, _Sent):
    """A script in a request."""


class NewRedisSetFilterTransform(_RedisSetFilter, _Sent):
    """A filter in a request. A new filter has the initial values of its set."""

    set_values: list[Annotated[str, Field(json_schema_extra=VALUE_SCHEMA)]] | None = Field(
        default=None,
        description="The initial values of a new filter's set; ignored for an existing filter. Never returned.",
        repr=False,
        json_schema_extra={"writeOnly": True, "maxItems": MAX_VALUES_PER_REQUEST},
    )


NewTransform = Annotated[NewV8Transform | NewRedisSetFilterTransform, Field(discriminator="type")]
NewTransforms = Annotated[list[NewTransform], Field(min_length=1, max_length=MAX_TRANSFORMS)]
"""The request body that replaces a configuration's transforms."""
