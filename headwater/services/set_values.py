"""Normalises the values of sets that requests contain."""

from collections.abc import Iterable, Iterator

from headwater.errors import Fault, InvalidInput
from headwater.model.value_sets import MAX_VALUE_CHARS, normalise, normalise_all

Values = list[str]
"""Values as a request contains them. A method with such a parameter raises InvalidInput for an invalid value."""


def normalise_one(value: str) -> str:
    """Return the stored form of a value.

    Raises InvalidInput when it is empty after trimming, or too long.
    """
    stored = normalise(value)
    if not 0 < len(stored) <= MAX_VALUE_CHARS:
        text = f"must have 1 to {MAX_VALUE_CHARS} characters after trimming"
        raise InvalidInput("The value is invalid.", [Fault("/value", text)])
    return stored


def normalised_parts(parts: Iterable[Values]) -> Iterator[list[str]]:
    """Yield the stored forms of a request's values in parts.

    Raises InvalidInput at the first invalid value.
    """
    first_index = 0
    for part in parts:
        yield normalise_all(part, first_index)
        first_index += len(part)
