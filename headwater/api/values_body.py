"""Bodies that carry values: read as a stream, and no further than the first fault."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ijson
import msgspec
from fastapi import Query

from headwater.api.guard import STREAMED, needs
from headwater.api.pointers import pointer
from headwater.errors import InvalidInput, MalformedRequest, Problem
from headwater.model.dataset import (
    MAX_DATASET_NAME_CHARS,
    MAX_VALUE_CHARS,
    MAX_VALUES_PER_REQUEST,
    VALUE_SCHEMA,
    trim,
)
from headwater.model.text import NO_NUL_PATTERN

MAX_SILENT_BYTES = 1 << 20
"""Bytes without a complete value in them: more than any value needs, however it is escaped and padded."""

_VALUES_SCHEMA = {"type": "array", "items": VALUE_SCHEMA}
_FEW_VALUES_SCHEMA = _VALUES_SCHEMA | {"minItems": 1, "maxItems": MAX_VALUES_PER_REQUEST}
_NAME_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_DATASET_NAME_CHARS,
    "pattern": NO_NUL_PATTERN,
}


def needs_with_values(
    scope: str, example: dict[str, Any], *, named: bool = False, any_number: bool = False
) -> dict[str, Any]:
    """`openapi_extra` of a route that reads its body as values."""
    values = _VALUES_SCHEMA if any_number else _FEW_VALUES_SCHEMA
    properties = {"values": values} | ({"name": _NAME_SCHEMA} if named else {})
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


@dataclass(frozen=True, slots=True)
class ValuesBody:
    """A body `{"values": […]}`, with a `name` when the route takes one."""

    values: list[str]
    name: str = ""


def read_values(chunks: Iterable[bytes], *, named: bool = False) -> ValuesBody:
    """Read a body of 1 to MAX_VALUES_PER_REQUEST values. Raises MalformedRequest, InvalidInput."""
    parser = ValuesParser(named=named)
    values: list[str] = []
    for part in parser.parse(chunks):
        values += part
        if len(values) > MAX_VALUES_PER_REQUEST:
            raise _refused(f"holds too many values; send at most {MAX_VALUES_PER_REQUEST} at once", "values")
    if not values:
        raise _refused("must hold at least one value", "values")
    return ValuesBody(values, parser.name)


def stream_values(chunks: Iterable[bytes]) -> Iterator[list[str]]:
    """The values of a body, part by part, any number of them. Raises MalformedRequest, InvalidInput."""
    return ValuesParser(named=False).parse(chunks)


class ValuesParser:
    """Takes a body in chunks. Holds at most some chunks, and the values of one.

    Runs of complete strings inside `values` are taken by _Runs; ijson reads everything else, as if they weren't there.
    """

    def __init__(self, *, named: bool) -> None:
        self.name = ""
        self._members = ("name", "values") if named else ("values",)
        self._seen: set[str] = set()
        self._member = ""
        self._in_array = False
        self._started = False
        self._found: list[str] = []
        self._taken = 0
        self._silent_bytes = 0
        self._runs = _Runs()
        self._escapes = _Escapes()
        self._events: list[tuple[str, Any]] = ijson.sendable_list()
        self._json = ijson.basic_parse_coro(self._events)

    def parse(self, chunks: Iterable[bytes]) -> Iterator[list[str]]:
        """The values, part by part. Raises MalformedRequest, InvalidInput at the first fault, or when it broke off."""
        for chunk in chunks:
            heard = self._feed(self._runs.take(chunk, self._found))
            self._silent_bytes = 0 if heard or self._found else self._silent_bytes + len(chunk)
            if self._silent_bytes > MAX_SILENT_BYTES:
                told = f"must have at most {MAX_VALUE_CHARS} characters, and no megabytes of white space before it"
                raise _refused(told, "values", self._taken)
            if self._found:
                yield self._take()
        self._feed(self._runs.rest())
        self._close()
        if self._found:
            yield self._take()

    def _take(self) -> list[str]:
        found, self._found = self._found, []
        self._taken += len(found)
        return found

    def _feed(self, json: bytes) -> bool:
        """Let ijson read on. True when it found something."""
        if not json:
            return False
        self._escapes.check(json)
        with _malformed():
            self._json.send(json)
        return self._take_events()

    def _close(self) -> None:
        self._escapes.check(b"", last=True)
        with _malformed():
            self._json.close()
        self._take_events()
        for member in self._members:
            if member not in self._seen:
                raise _refused("is required", member)

    def _take_events(self) -> bool:
        heard = bool(self._events)
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
        return heard

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
            self.name = value
        self._member = ""

    def _take_value(self, event: str, value: Any) -> None:
        if event == "end_array":
            self._in_array = False
        elif event != "string":
            raise _refused("must be a string", "values", self._taken + len(self._found))
        elif len(value) > MAX_VALUE_CHARS and len(trim(value)) > MAX_VALUE_CHARS:
            raise _refused(f"must have at most {MAX_VALUE_CHARS} characters", "values", self._taken + len(self._found))
        else:
            self._found.append(value)


class _Runs:
    """Takes runs of complete strings out of the array of values, ten times as fast as ijson reads them.

    A run begins where a value may begin. It ends before a quote that follows a comma that follows a quote, so what is
    left is again a place where a value must begin. Any of these quotes may stand inside a string; then the run is no
    valid JSON, and everything from it on is left to ijson. So it is ijson that tells what is wrong.
    """

    _START = re.compile(rb'\s*\{\s*(?:"name"\s*:\s*"[^"\\]*"\s*,\s*)?"values"\s*:\s*\[\s*(?=")')
    _END = re.compile(rb'",[ \t\r\n]*(?=")')
    _LONGEST_START = 4096
    _LONGEST_KEPT = 1 << 16
    _strings = msgspec.json.Decoder(list[str])

    def __init__(self) -> None:
        self._kept = b""
        self._next: Callable[[list[str]], bytes] = self._start

    def take(self, chunk: bytes, found: list[str]) -> bytes:
        """The next bytes: puts the values of a run into `found` and returns what ijson must read."""
        self._kept += chunk
        return self._next(found)

    def rest(self) -> bytes:
        """What is left at the end of the body, for ijson."""
        return self._leave()

    def _start(self, found: list[str]) -> bytes:
        start = self._START.match(self._kept)
        if start is None:
            return self._leave() if len(self._kept) > self._LONGEST_START else b""
        head, self._kept = start.group(), self._kept[start.end() :]
        self._next = self._run
        return head + self._run(found)

    def _run(self, found: list[str]) -> bytes:
        end = self._end()
        if end is None:
            return self._leave() if len(self._kept) > self._LONGEST_KEPT else b""
        run = b"[%b]" % self._kept[: end.start() + 1]
        try:
            found += self._strings.decode(run)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._leave()
        self._kept = self._kept[end.end() :]
        return b""

    def _end(self) -> re.Match[bytes] | None:
        """The last place where a run may end, looked for in the last few places only."""
        at = len(self._kept)
        for _ in range(4):
            at = self._kept.rfind(b'",', 0, at)
            if at < 0:
                return None
            if end := self._END.match(self._kept, at):
                return end
        return None

    def _leave(self) -> bytes:
        kept, self._kept = self._kept, b""
        self._next = lambda _: self._leave()
        return kept


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
