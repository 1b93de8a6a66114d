"""Parses the If-Match header (RFC 9110, section 13.1.1)."""

import re

from headwater.services.flows import IfMatch

MAX_REVISION_DIGITS = 19
"""Bounds the cost of int()."""
_ENTITY_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*(?:,|$)')


def parse_if_match(lines: list[str]) -> IfMatch:
    """Return the revisions in the lines of an If-Match header.

    Returns None for `*` and without the header. Weak entity tags, and tags that are not revisions, match nothing.
    """
    if not lines or "*" in map(str.strip, lines):
        return None
    tags = (match.groups() for line in lines for match in _ENTITY_TAG.finditer(line))
    return frozenset(int(tag) for weak, tag in tags if not weak and _is_revision(tag))


def _is_revision(tag: str) -> bool:
    """Whether a tag is a revision number in canonical form."""
    return len(tag) <= MAX_REVISION_DIGITS and tag.isascii() and tag.isdecimal() and str(int(tag)) == tag
