"""Types and helpers of pydantic members that several models share."""

from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field


def is_none(value: object) -> bool:
    """Whether a value is None.

    Used as exclude_if, so that responses omit an optional member that is not set.
    """
    return value is None


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character NUL")
    return text


NO_NUL_PATTERN = r"^[^\u0000]*$"

Text = Annotated[str, AfterValidator(_storable), Field(json_schema_extra={"pattern": NO_NUL_PATTERN})]
"""A string without NUL, which PostgreSQL can't store."""

ReturnedOnly = Annotated[
    Any, Field(description="Returned only; ignored.", exclude=True, json_schema_extra={"readOnly": True})
]
"""A member of responses that a request may contain too, where it is ignored."""


def models_by_type(union: Any) -> dict[str, Any]:
    """Return the models of an annotated union, by the value of their discriminator `type`."""
    models = get_args(get_args(union)[0])
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in models}
