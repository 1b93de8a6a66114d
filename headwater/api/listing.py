"""Lists that may be asked for page by page: the next page is in the `Link` header (RFC 8288)."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, BaseModel

from headwater.api.queries import IN_DIGITS, NULL_AS_NONE
from headwater.model.listing import CURSOR_PATTERN, MAX_LIST_LIMIT, Place, place_of


def _checked(cursor: str | None) -> str | None:
    if cursor is not None:
        place_of(cursor)
    return cursor


Limit = Annotated[
    int | None,
    Query(ge=1, le=MAX_LIST_LIMIT, description="Objects of a page; without it the whole list comes at once."),
    IN_DIGITS,
]
Cursor = Annotated[
    str | None,
    Query(description="From the `Link` header of the page before.", json_schema_extra={"pattern": CURSOR_PATTERN}),
    AfterValidator(_checked),
    NULL_AS_NONE,
]
LINK: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Link": {
                "description": 'The next page, as `<…>; rel="next"`; left out on the last one.',
                "required": False,
                "schema": {"type": "string"},
            }
        }
    }
}
"""`responses` of a route that answers with a list; join it to `failures` with `|`."""


def streamed(request: Request, parts: Iterable[Iterable[BaseModel]], following: Place | None) -> StreamingResponse:
    """An array whose objects are rendered part by part; the first part is made at once, so that it may still fail."""
    rest = iter(parts)
    first = next(rest, ())
    headers = {} if following is None else {"Link": _link(request, following)}
    return StreamingResponse(_array(chain([first], rest)), media_type="application/json", headers=headers)


def _array(parts: Iterable[Iterable[BaseModel]]) -> Iterator[bytes]:
    before = b"["
    for part in parts:
        rendered = b",".join(one.model_dump_json(by_alias=True).encode() for one in part)
        if rendered:
            yield before + rendered
            before = b","
    yield b"[]" if before == b"[" else b"]"


def _link(request: Request, following: Place) -> str:
    others = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    query = urlencode([*others, ("cursor", following.cursor())])
    return f'<{request.url.path}?{query}>; rel="next"'
