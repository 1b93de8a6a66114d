"""How a script's BigInts travel to a script further down the chain, so that a Number there is still a Number.

A script that feeds another one writes a BigInt as `<digits>e0`, as no Number is written, and puts a space before the
record for each of them, 16 at most (see realm.js). All other numbers of such a batch are Numbers, also integers beyond
2^53 - 1. The last script of a chain writes plain digits.
"""

import re

_MARK = b"e0"
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?<=[0-9])e0(?=[,}\]])', re.DOTALL)
"""A string, or a mark: behind digits and before what follows a number."""
_MARKED_PREFIX = b" "


def is_marked(record: bytes) -> bool:
    """Whether a record between two scripts has marks."""
    return record.startswith(_MARKED_PREFIX)


def has_marked(text: bytes) -> bool:
    """Whether there is a record with marks among lines of text."""
    return text.startswith(_MARKED_PREFIX) or b"\n" + _MARKED_PREFIX in text


def unmarked(record: bytes) -> bytes:
    """A record between two scripts as the last one of them would write it."""
    if not is_marked(record):
        return record
    return _TOKEN.sub(lambda token: b"" if token[0] == _MARK else token[0], record.lstrip(_MARKED_PREFIX))
