"""Parses query parameters more strictly than pydantic does, and refuses unknown parameters.

Put the validators after `Query(…)` in an Annotated type: before `Query(…)`, they would remove its constraints from the
OpenAPI schema. pydantic runs validators from right to left, so NULL_TO_NONE goes after STRICT_INTEGER.
"""

import re
from collections.abc import Collection

from pydantic import BeforeValidator
from starlette.datastructures import QueryParams

from headwater.api.faults import pointer
from headwater.errors import Fault, InvalidInput
from headwater.model.value_sets import MAX_REPORTED_FAULTS

TRUE, FALSE = ("true", "1", "yes", "y", "on", "t"), ("false", "0", "no", "n", "off", "f")


def _require_digits(sent: object) -> object:
    """Reject texts such as `1_0` and ` 7`, which pydantic accepts as integers."""
    if isinstance(sent, str) and not re.fullmatch("-?[0-9]+", sent):
        raise ValueError("must be an integer, in digits alone")
    return sent


def _null_to_none(sent: object) -> object:
    return None if sent in ("", "null") else sent


def _to_boolean(sent: object) -> object:
    if not isinstance(sent, str):
        return sent
    word = sent.lower()  # clients in Python write True
    if word not in TRUE + FALSE:
        raise ValueError("must be true or false")
    return word in TRUE


STRICT_INTEGER = BeforeValidator(_require_digits)
NULL_TO_NONE = BeforeValidator(_null_to_none)
"""Converts an empty or `null` cursor to None (the first page): some clients send the last page's null as text."""
STRICT_BOOLEAN = BeforeValidator(_to_boolean)


def refuse_unknown_parameters(query_string: bytes, known: Collection[str]) -> None:
    """Raise InvalidInput for unknown parameters, so that a typo is noticed."""
    unknown = sorted(set(QueryParams(query_string)).difference(known))
    if not unknown:
        return
    known_parameters = f"the query parameters {', '.join(sorted(known))}" if known else "no query parameters"
    detail = f"is unknown; this operation has {known_parameters}"
    faults = [Fault(pointer([name]), detail) for name in unknown[:MAX_REPORTED_FAULTS]]
    raise InvalidInput("The request was refused.", faults, unknown[0])
