"""The `Link` header, which names the next page of a list (RFC 8288)."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

_NEXT = re.compile(r'<([^>]*)>\s*;[^,]*\brel="?next"?')


def next_cursor(headers: Mapping[str, str]) -> str | None:
    """Return the cursor of the next page; None on the last page.

    >>> next_cursor({"Link": '</api/v1/flow?limit=2&cursor=17-0a>; rel="next"'})
    '17-0a'
    >>> next_cursor({})
    """
    found = _NEXT.search(headers.get("Link", ""))
    if found is None:
        return None
    return parse_qs(urlsplit(found[1]).query).get("cursor", [None])[0]
