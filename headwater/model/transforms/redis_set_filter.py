"""The configuration of the transform `redis_set_filter`.

headwater/transforms/redis_set_filter.py executes the transform.
"""

from typing import Annotated, Literal

from pydantic import Field

from headwater.model.fields import Text
from headwater.model.transforms.base import NewTransformFields, TransformFields
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST, VALUE_SCHEMA

MAX_EXPRESSION_CHARS = 4096


class _RedisSetFilter(TransformFields):
    noun = "filter"
    content_field = "filter_expr"
    example = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
    owns_set = True

    type: Literal["redis_set_filter"]
    filter_expr: Text = Field(
        max_length=MAX_EXPRESSION_CHARS,
        description="Selects the tested value, for example `root = this.token_address`.",
    )


class RedisSetFilterTransform(_RedisSetFilter):
    """Keeps a record when the selected value is in the transform's filter set."""

    uid: str


class NewRedisSetFilterTransform(_RedisSetFilter, NewTransformFields):
    """A filter in a request. A new filter may have the initial values of its set."""

    set_values: list[Annotated[str, Field(json_schema_extra=VALUE_SCHEMA)]] | None = Field(
        default=None,
        description="The initial values of a new filter's set; ignored for an existing filter. Never returned.",
        repr=False,
        json_schema_extra={"writeOnly": True, "maxItems": MAX_VALUES_PER_REQUEST},
    )

    @property
    def initial_values(self) -> list[str] | None:
        """The initial values of a new filter's set."""
        return self.set_values
