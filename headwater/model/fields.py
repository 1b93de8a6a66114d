"""Types and helpers of pydantic fields that several models share."""

from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field


def is_none(value: object) -> bool:
    """Whether a value is None.

    Fields use this function as `exclude_if`, so that responses omit an optional field that is not set.
    """
    return value is None


def _reject_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character NUL")
    return text


NO_NUL_PATTERN = r"^[^\u0000]*$"

Text = Annotated[str, AfterValidator(_reject_nul), Field(json_schema_extra={"pattern": NO_NUL_PATTERN})]
"""A string without NUL, which PostgreSQL can't store."""

ReturnedOnly = Annotated[
    Any, Field(description="Returned only; ignored.", exclude=True, json_schema_extra={"readOnly": True})
]
"""A field of responses. A request may contain the field, and its value is ignored."""


def models_by_type(union: Any) -> dict[str, Any]:
    """Return the models of an annotated union, by the value of their discriminator `type`."""
    alternatives, *_ = get_args(union)
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(alternatives)}
