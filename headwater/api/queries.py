"""Query parameters that are read as they are described: pydantic alone takes `1_0`, ` 7` and `on` too."""

import re

from pydantic import BeforeValidator


def _in_digits(sent: object) -> object:
    if isinstance(sent, str) and not re.fullmatch("-?[0-9]+", sent):
        raise ValueError("must be an integer, in digits alone")
    return sent


def _true_or_false(sent: object) -> object:
    if isinstance(sent, str) and sent.lower() not in ("true", "false"):  # Python's clients write True
        raise ValueError("must be true or false")
    return sent


IN_DIGITS = BeforeValidator(_in_digits)
TRUE_OR_FALSE = BeforeValidator(_true_or_false)
"""Stand behind the Query: before it they would keep its rules out of the description."""
