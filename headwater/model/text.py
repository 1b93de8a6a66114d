"""Kinds of members that the models share."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field


def absent(value: object) -> bool:
    """True for null: an answer leaves out an optional member that is not set."""
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
"""A member of an answer that may be sent back."""
