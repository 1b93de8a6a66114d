"""Pagination of lists, whose `Link` header (RFC 8288) names the next page."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, BaseModel

from headwater.api.query_parameters import NULL_TO_NONE, STRICT_INTEGER
from headwater.model.pagination import LIST_CURSOR_PATTERN, MAX_LIST_LIMIT, ListPosition, parse_list_cursor


def require_valid_cursor(cursor: str | None) -> str | None:
    """Raise ValueError when a cursor has not the form of a ListPosition's cursor."""
    if cursor is not None:
        parse_list_cursor(cursor)
    return cursor


Limit = Annotated[
    int | None,
    Query(
        ge=1, le=MAX_LIST_LIMIT, description="The number of objects on a page; without it, the whole list is returned."
    ),
    STRICT_INTEGER,
]
Cursor = Annotated[
    str | None,
    Query(
        description="The cursor from the `Link` header of the previous page.",
        json_schema_extra={"pattern": LIST_CURSOR_PATTERN},
    ),
    AfterValidator(require_valid_cursor),
    NULL_TO_NONE,
]
LINK_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Link": {
                "description": 'The next page, as `<…>; rel="next"`; omitted on the last page.',
                "required": False,
                "schema": {"type": "string"},
            }
        }
    }
}
"""The `responses` of a route that returns a list. Combine them with `problem_responses` by `|`."""


def stream_array(
    request: Request, parts: Iterable[Iterable[BaseModel]], next_position: ListPosition | None
) -> StreamingResponse:
    """Stream a JSON array whose objects are read in parts.

    The first part is read before the response starts, so that an error in it can still become an error response.

    Args:
        next_position: The position after which the next page begins; None on the last page.
    """
    remaining_parts = iter(parts)
    first_part = next(remaining_parts, ())
    body = _render(chain([first_part], remaining_parts))
    headers = {} if next_position is None else {"Link": _next_link(request, next_position)}
    return StreamingResponse(body, media_type="application/json", headers=headers)


def _render(parts: Iterable[Iterable[BaseModel]]) -> Iterator[bytes]:
    separator = b"["
    for part in parts:
        rendered = b",".join(item.model_dump_json(by_alias=True).encode() for item in part)
        if rendered:
            yield separator + rendered
            separator = b","
    yield b"[]" if separator == b"[" else b"]"


def _next_link(request: Request, next_position: ListPosition) -> str:
    parameters = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    query = urlencode([*parameters, ("cursor", next_position.cursor())])
    return f'<{request.url.path}?{query}>; rel="next"'
