"""Text that every store can keep."""

from typing import Annotated

from pydantic import AfterValidator


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character NUL")
    return text


Text = Annotated[str, AfterValidator(_storable)]
"""A string without NUL, which PostgreSQL can't store."""
