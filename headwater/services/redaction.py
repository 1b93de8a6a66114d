"""Redacts the operator's hosts, topics, users and folders in sentences for users."""

import re
from collections.abc import Callable, Iterable

Redact = Callable[[str], str]

REDACTED = "…"
_MIN_NAME_CHARS = 3
"""The length of the shortest name that is redacted: shorter names may be words of the sentence."""
_PATTERNS = (
    r"(?<![\w./…])/(?:[\w.@+~-]+/)+[\w.@+~-]*",  # an absolute path of two parts or more
    r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?![\w-])",  # an IPv4 address
    r"\[[0-9a-fA-F:]*:[0-9a-fA-F:.]*\](?::\d+)?",  # an IPv6 address in brackets
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # an account such as a service account of Google
    r"(?<=not valid for ')[^']+",  # the host that a certificate is not for
)
"""Patterns of names that are not in the settings but occur in error messages of libraries.

For example, a Kafka cluster advertises hosts that are in no setting.
"""


def redactor(names: Iterable[str]) -> Redact:
    """Return a function that replaces names and matches of _PATTERNS by REDACTED.

    A name is replaced only where it is a whole word.
    """
    redacted = sorted({name for name in names if len(name) >= _MIN_NAME_CHARS}, key=len, reverse=True)
    whole_words = [rf"(?<![\w-])(?:{'|'.join(map(re.escape, redacted))})(?![\w-])"] if redacted else []
    pattern = re.compile("|".join([*whole_words, *_PATTERNS]))
    return lambda sentence: pattern.sub(REDACTED, sentence)
