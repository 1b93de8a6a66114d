"""Redacts names of the operator's systems in sentences that users read: addresses, topics, users, folders."""

import re
from collections.abc import Callable, Iterable

Redact = Callable[[str], str]

REDACTED = "…"
_SHORTEST = 3
"""Shorter names are not redacted, since they may be words of the sentence."""
_UNNAMED = (
    r"(?<![\w./…])/(?:[\w.@+~-]+/)+[\w.@+~-]*",  # an absolute path of two members or more
    r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?![\w-])",  # an IPv4 address
    r"\[[0-9a-fA-F:]*:[0-9a-fA-F:.]*\](?::\d+)?",  # an IPv6 address in brackets
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # an account such as a service account of Google
    r"(?<=not valid for ')[^']+",  # the host that a certificate is not for
)
"""What libraries and systems write into errors and the settings do not have, such as hosts that a cluster announces."""


def redactor(names: Iterable[str]) -> Redact:
    """A function that replaces by REDACTED each of these names, where it is a whole word, and what looks like one."""
    known = sorted({name for name in names if len(name) >= _SHORTEST}, key=len, reverse=True)
    whole_words = [rf"(?<![\w-])(?:{'|'.join(map(re.escape, known))})(?![\w-])"] if known else []
    pattern = re.compile("|".join([*whole_words, *_UNNAMED]))
    return lambda sentence: pattern.sub(REDACTED, sentence)
