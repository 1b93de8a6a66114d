"""Values as callers send them."""

from collections.abc import Iterable, Iterator

from headwater.errors import InvalidInput, Problem
from headwater.model.dataset import MAX_VALUE_CHARS, normalise, normalise_all

Values = list[str]
"""The values of a request, as sent. A service that takes them raises InvalidInput when one can't be in a set."""


def normalise_one(value: str) -> str:
    """The stored form of a value. Raises InvalidInput when it is empty after trimming or too long."""
    stored = normalise(value)
    if not 0 < len(stored) <= MAX_VALUE_CHARS:
        text = f"must have 1 to {MAX_VALUE_CHARS} characters after trimming"
        raise InvalidInput("The value can't be in a set.", [Problem("/value", text)])
    return stored


def normalised_parts(parts: Iterable[Values]) -> Iterator[list[str]]:
    """The stored forms of a request's values, part by part. Raises InvalidInput at the first part with a bad one."""
    first = 0
    for part in parts:
        yield normalise_all(part, first)
        first += len(part)
