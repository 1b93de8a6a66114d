"""Takes what belongs to the operator out of sentences that users read: addresses, topics, users, folders."""

import re
from collections.abc import Callable, Iterable

Hide = Callable[[str], str]

HIDDEN = "…"
_SHORTEST = 3
"""Shorter names are too often a part of a sentence of ours."""


def hiding(names: Iterable[str]) -> Hide:
    """Replaces each of these names by HIDDEN, where it stands as a word of its own."""
    known = sorted({name for name in names if len(name) >= _SHORTEST}, key=len, reverse=True)
    if not known:
        return lambda sentence: sentence
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, known))})(?![\w-])")
    return lambda sentence: pattern.sub(HIDDEN, sentence)
