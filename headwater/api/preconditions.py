"""ETag and If-Match (RFC 9110, sections 8.8.3 and 13.1.1). The entity tag of a configuration is its revision."""

import re
from typing import Annotated

from fastapi import Depends, Header, Response

from headwater.model.flow import Flow
from headwater.services.flows import IfMatch

_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*(?:,|$)')


def set_etag(response: Response, flow: Flow) -> None:
    """Answer with the revision."""
    response.headers["ETag"] = f'"{flow.revision}"'


def revisions(lines: list[str]) -> IfMatch:
    """The revisions that an If-Match names; None for any. Weak tags, and what is no tag of ours, match nothing."""
    if not lines or "*" in map(str.strip, lines):
        return None
    tags = (match for line in lines for match in _TAG.finditer(line))
    return frozenset(int(tag) for weak, tag in (match.groups() for match in tags) if not weak and _is_revision(tag))


def _is_revision(tag: str) -> bool:
    """True for a number as we write it; the length keeps it small."""
    return len(tag) < 20 and tag.isascii() and tag.isdecimal() and str(int(tag)) == tag


async def _if_match(
    lines: Annotated[
        list[str],
        Header(
            alias="If-Match",
            description="Change only this revision: the ETag that was read. Answers 412 when it is another by now.",
            examples=['"3"'],
        ),
    ] = [],  # noqa: B006  # FastAPI copies it
) -> IfMatch:
    return revisions(lines)


Expected = Annotated[IfMatch, Depends(_if_match)]
"""The revisions that a request is ready to change, as a parameter of a route."""
