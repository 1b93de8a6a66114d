"""Text that every store can keep."""

from typing import Annotated

from pydantic import AfterValidator, Field


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character NUL")
    return text


NO_NUL_PATTERN = r"^[^\u0000]*$"

Text = Annotated[str, AfterValidator(_storable), Field(json_schema_extra={"pattern": NO_NUL_PATTERN})]
"""A string without NUL, which PostgreSQL can't store."""
