"""Bodies that carry values: read as a stream, and no further than the first fault."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ijson
from fastapi import Query, Request
from starlette.requests import ClientDisconnect

from headwater.api.guard import STREAMED, needs
from headwater.api.pointers import pointer
from headwater.errors import InvalidInput, MalformedRequest, Problem
from headwater.model.dataset import MAX_DATASET_NAME_CHARS, MAX_VALUE_CHARS, MAX_VALUES_PER_REQUEST, VALUE_SCHEMA
from headwater.model.text import NO_NUL_PATTERN

MAX_SILENT_BYTES = 1 << 20
"""Bytes without a complete value in them: more than any value needs, however it is escaped and padded."""

_VALUES_SCHEMA = {
    "type": "array",
    "items": VALUE_SCHEMA,
    "minItems": 1,
    "maxItems": MAX_VALUES_PER_REQUEST,
}
_NAME_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_DATASET_NAME_CHARS,
    "pattern": NO_NUL_PATTERN,
}


def needs_with_values(scope: str, example: dict[str, Any], *, named: bool = False) -> dict[str, Any]:
    """`openapi_extra` of a route that reads its body with `read_values`."""
    properties = {"values": _VALUES_SCHEMA} | ({"name": _NAME_SCHEMA} if named else {})
    schema = {
        "type": "object",
        "required": sorted(properties),
        "properties": properties,
        "additionalProperties": False,
    }
    content = {"application/json": {"schema": schema, "example": example}}
    return needs(scope) | {STREAMED: True, "requestBody": {"required": True, "content": content}}


def value_query(example: str) -> Any:
    """The query parameter `value` of a check."""
    return Query(
        description="Compared trimmed and in lower case.", examples=[example], json_schema_extra=dict(VALUE_SCHEMA)
    )


@dataclass(slots=True)
class ValuesBody:
    """A body `{"values": […]}`, with a `name` when the route takes one."""

    values: list[str] = field(default_factory=list)
    name: str = ""


async def read_values(request: Request, *, named: bool = False) -> ValuesBody:
    """Read a request's body. Raises MalformedRequest, InvalidInput."""
    parser = ValuesParser(named=named)
    try:
        async for chunk in request.stream():
            parser.feed(chunk)
    except ClientDisconnect as error:
        raise MalformedRequest("The body broke off. Nothing was changed.") from error
    return parser.close()


class ValuesParser:
    """Takes a body in chunks. Holds its values, and beside them at most some chunks."""

    def __init__(self, *, named: bool) -> None:
        self._members = ("name", "values") if named else ("values",)
        self._seen: set[str] = set()
        self._member = ""
        self._in_array = False
        self._started = False
        self._body = ValuesBody()
        self._silent_bytes = 0
        self._escapes = _Escapes()
        self._events: list[tuple[str, Any]] = ijson.sendable_list()
        self._json = ijson.basic_parse_coro(self._events)

    def feed(self, chunk: bytes) -> None:
        """The next bytes. Raises MalformedRequest, InvalidInput at the first fault."""
        if not chunk:
            return
        self._escapes.check(chunk)
        with _malformed():
            self._json.send(chunk)
        self._silent_bytes = 0 if self._events else self._silent_bytes + len(chunk)
        self._take_events()
        if self._silent_bytes > MAX_SILENT_BYTES:
            raise _refused(f"must have at most {MAX_VALUE_CHARS} characters", "values", len(self._body.values))

    def close(self) -> ValuesBody:
        """The body's end. Raises MalformedRequest when it broke off, InvalidInput."""
        self._escapes.check(b"", last=True)
        with _malformed():
            self._json.close()
        self._take_events()
        for member in self._members:
            if member not in self._seen:
                raise _refused("is required", member)
        if not self._body.values:
            raise _refused("must hold at least one value", "values")
        return self._body

    def _take_events(self) -> None:
        for event, value in self._events:
            if self._in_array:
                self._take_value(event, value)
            elif self._member:
                self._take_member(event, value)
            elif event == "map_key":
                self._take_key(value)
            elif not self._started and event != "start_map":
                raise _refused("must be a JSON object")
            self._started = True
        self._events.clear()

    def _take_key(self, key: str) -> None:
        if key not in self._members:
            raise _refused("is no member of this object; correct its name or leave it out", key)
        if key in self._seen:
            raise _refused("is there twice", key)
        self._seen.add(key)
        self._member = key

    def _take_member(self, event: str, value: Any) -> None:
        if self._member == "values":
            if event != "start_array":
                raise _refused("must be an array of strings", "values")
            self._in_array = True
        elif event != "string" or not 0 < len(value) <= MAX_DATASET_NAME_CHARS or "\0" in value:
            raise _refused(f"must be a string of 1 to {MAX_DATASET_NAME_CHARS} characters without NUL", "name")
        else:
            self._body.name = value
        self._member = ""

    def _take_value(self, event: str, value: Any) -> None:
        values = self._body.values
        if event == "end_array":
            self._in_array = False
        elif event != "string":
            raise _refused("must be a string", "values", len(values))
        elif len(values) == MAX_VALUES_PER_REQUEST:
            raise _refused(f"holds too many values; send at most {MAX_VALUES_PER_REQUEST} at once", "values")
        elif len(value) > MAX_VALUE_CHARS and len(value.strip()) > MAX_VALUE_CHARS:
            raise _refused(f"must have at most {MAX_VALUE_CHARS} characters", "values", len(values))
        else:
            values.append(value)


@contextlib.contextmanager
def _malformed() -> Iterator[None]:
    try:
        yield
    except (ijson.JSONError, ValueError) as error:
        raise MalformedRequest("The body is not valid JSON, or it broke off. Nothing was changed.") from error


def _refused(detail: str, *path: str | int) -> InvalidInput:
    return InvalidInput("Nothing was changed.", [Problem(pointer(path), detail)])


class _Escapes:
    r"""Finds lone surrogates, such as `\ud800` alone: the C parser would turn them into question marks."""

    _ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)
    _LONGEST = 12

    def __init__(self) -> None:
        self._undecided = b""

    def check(self, chunk: bytes, *, last: bool = False) -> None:
        """The next bytes; an escape that the chunk's end may cut waits for the next ones. Raises MalformedRequest."""
        text = self._undecided + chunk
        end = len(text) if last else len(text) - self._LONGEST + 1
        position = text.find(b"\\")
        while 0 <= position < end:
            escape = self._ESCAPE.match(text, position)
            if escape is None:
                break
            if escape.group(1):
                raise MalformedRequest("The body is not valid JSON: half of a surrogate pair stands alone.")
            position = text.find(b"\\", escape.end())
        self._undecided = text[position:] if position >= 0 else b""
