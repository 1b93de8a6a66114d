"""Query parameters that are read as they are described: pydantic alone takes `1_0` and ` 7` too."""

import re
from collections.abc import Collection

from pydantic import BeforeValidator
from starlette.datastructures import QueryParams

from headwater.api.pointers import pointer
from headwater.errors import InvalidInput, Problem
from headwater.model.dataset import MAX_REPORTED_PROBLEMS

TRUE, FALSE = ("true", "1", "yes", "y", "on", "t"), ("false", "0", "no", "n", "off", "f")


def _in_digits(sent: object) -> object:
    if isinstance(sent, str) and not re.fullmatch("-?[0-9]+", sent):
        raise ValueError("must be an integer, in digits alone")
    return sent


def _null_as_none(sent: object) -> object:
    """The first page: some clients write the cursor of a last page as they read it."""
    return None if sent in ("", "null") else sent


def _boolean(sent: object) -> object:
    if not isinstance(sent, str):
        return sent
    word = sent.lower()  # clients in Python write True
    if word not in TRUE + FALSE:
        raise ValueError("must be true or false")
    return word in TRUE


IN_DIGITS = BeforeValidator(_in_digits)
NULL_AS_NONE = BeforeValidator(_null_as_none)
"""Stands behind IN_DIGITS, and so is asked before it."""
TRUE_OR_FALSE = BeforeValidator(_boolean)
"""All of them stand behind the Query: before it they would keep its rules out of the description."""


def refuse_unknown(query_string: bytes, known: Collection[str]) -> None:
    """Raise InvalidInput for parameters that a call does not take: a typo must not pass silently."""
    unknown = sorted(set(QueryParams(query_string)).difference(known))
    if not unknown:
        return
    takes = f"the query parameters {', '.join(sorted(known))}" if known else "no query parameters"
    fault = f"is unknown; this call takes {takes}"
    problems = [Problem(pointer([name]), fault) for name in unknown[:MAX_REPORTED_PROBLEMS]]
    raise InvalidInput("The request was refused.", problems, unknown[0])
