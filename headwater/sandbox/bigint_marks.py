"""The marks that distinguish BigInts from Numbers in records between two scripts.

A script whose output goes to another script writes each BigInt as `<digits>e0`, a form that JSON.stringify never
produces for a Number. It also puts one space before the record for each BigInt, at most 16 (see
harness/realm_setup.js). All other numbers of such a batch are Numbers, also integers beyond 2^53 - 1. The last script
of a pipeline writes plain digits.
"""

import re

_MARK = b"e0"
_STRING_OR_MARK = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?<=[0-9])e0(?=[,}\]])', re.DOTALL)
"""A JSON string, or a mark. A mark follows a digit and precedes `,`, `}` or `]`."""
_MARK_PREFIX = b" "


def is_marked(record: bytes) -> bool:
    """Return whether a record that one script passed to another contains marked BigInts."""
    return record.startswith(_MARK_PREFIX)


def any_marked(text: bytes) -> bool:
    """Return whether any record in a text with a record per line contains marked BigInts."""
    return text.startswith(_MARK_PREFIX) or b"\n" + _MARK_PREFIX in text


def remove_marks(record: bytes) -> bytes:
    """Return the record without marks: plain digits, as the last script writes them."""
    if not is_marked(record):
        return record
    return _STRING_OR_MARK.sub(lambda match: b"" if match[0] == _MARK else match[0], record.lstrip(_MARK_PREFIX))
