"""Redacts names of the operator's systems in sentences that users read: addresses, topics, users, folders."""

import re
from collections.abc import Callable, Iterable

Redact = Callable[[str], str]

REDACTED = "…"
_SHORTEST = 3
"""Shorter names are not redacted, since they may be words of the sentence."""


def redactor(names: Iterable[str]) -> Redact:
    """A function that replaces each of these names by REDACTED where the name is a whole word."""
    known = sorted({name for name in names if len(name) >= _SHORTEST}, key=len, reverse=True)
    if not known:
        return lambda sentence: sentence
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, known))})(?![\w-])")
    return lambda sentence: pattern.sub(REDACTED, sentence)
