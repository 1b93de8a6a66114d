"""Parses request bodies with the member `values` while they arrive.

Parsing stops at the first fault.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ijson
import msgspec
from fastapi import Query

from headwater.api.faults import pointer
from headwater.api.guarded_routes import STREAMED, required_scopes
from headwater.errors import Fault, InvalidInput, MalformedRequest
from headwater.model.fields import NO_NUL_PATTERN
from headwater.model.value_sets import (
    MAX_DATASET_NAME_CHARS,
    MAX_VALUE_CHARS,
    MAX_VALUES_PER_REQUEST,
    VALUE_SCHEMA,
    trim,
)

MAX_BYTES_WITHOUT_VALUE = 1 << 20
"""More bytes than a complete value can have, even when all its characters are escaped."""

_VALUES_SCHEMA = {"type": "array", "items": VALUE_SCHEMA}
_LIMITED_VALUES_SCHEMA = _VALUES_SCHEMA | {"minItems": 1, "maxItems": MAX_VALUES_PER_REQUEST}
_NAME_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_DATASET_NAME_CHARS,
    "pattern": NO_NUL_PATTERN,
}


def streamed_values_route(
    scope: str, example: dict[str, Any], *, has_name: bool = False, any_number: bool = False
) -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose body is parsed by this module.

    Args:
        scope: The scope that the API key must have.
        example: An example of the body.
        has_name: Whether the body also has the member `name`.
        any_number: Whether the number of values is unlimited.
    """
    values = _VALUES_SCHEMA if any_number else _LIMITED_VALUES_SCHEMA
    properties = {"values": values} | ({"name": _NAME_SCHEMA} if has_name else {})
    schema = {
        "type": "object",
        "required": sorted(properties),
        "properties": properties,
        "additionalProperties": False,
    }
    content = {"application/json": {"schema": schema, "example": example}}
    return required_scopes(scope) | {STREAMED: True, "requestBody": {"required": True, "content": content}}


def value_query(example: str) -> Any:
    """Return the query parameter `value` of a route that looks one value up."""
    return Query(
        description="Compared trimmed and in lower case.", examples=[example], json_schema_extra=dict(VALUE_SCHEMA)
    )


@dataclass(frozen=True, slots=True)
class ValuesBody:
    """A body `{"values": […]}`, with a `name` when the route has one."""

    values: list[str]
    name: str = ""


def read_values(chunks: Iterable[bytes], *, has_name: bool = False) -> ValuesBody:
    """Read a body of 1 to MAX_VALUES_PER_REQUEST values. Raises MalformedRequest, InvalidInput."""
    parser = ValuesParser(has_name=has_name)
    values: list[str] = []
    for part in parser.parse(chunks):
        values += part
        if len(values) > MAX_VALUES_PER_REQUEST:
            raise _invalid(f"holds too many values; send at most {MAX_VALUES_PER_REQUEST} at once", "values")
    if not values:
        raise _invalid("must hold at least one value", "values")
    return ValuesBody(values, parser.name)


def stream_values(chunks: Iterable[bytes]) -> Iterator[list[str]]:
    """Yield the values of a body in parts, without a limit on their number.

    Raises MalformedRequest, InvalidInput.
    """
    return ValuesParser(has_name=False).parse(chunks)


class ValuesParser:
    """Parses a body chunk by chunk.

    The parser keeps at most a few chunks and the values of one chunk in memory. _FastStrings decodes runs of complete
    strings inside `values`, and ijson parses all other bytes of the body.

    Attributes:
        name: The member `name`; empty until it is parsed.
    """

    def __init__(self, *, has_name: bool) -> None:
        self.name = ""
        self._members = ("name", "values") if has_name else ("values",)
        self._parsed_keys: set[str] = set()
        self._current_key = ""
        self._is_in_array = False
        self._has_started = False
        self._values: list[str] = []
        self._values_before = 0
        self._bytes_without_value = 0
        self._fast_strings = _FastStrings()
        self._surrogate_check = _LoneSurrogateCheck()
        self._events: list[tuple[str, Any]] = ijson.sendable_list()
        self._ijson = ijson.basic_parse_coro(self._events)

    def parse(self, chunks: Iterable[bytes]) -> Iterator[list[str]]:
        """Yield the values in parts.

        Raises MalformedRequest or InvalidInput at the first fault, and MalformedRequest when the body is incomplete.
        """
        for chunk in chunks:
            made_progress = self._feed(self._fast_strings.feed(chunk, self._values))
            self._bytes_without_value = 0 if made_progress or self._values else self._bytes_without_value + len(chunk)
            if self._bytes_without_value > MAX_BYTES_WITHOUT_VALUE:
                detail = f"must have at most {MAX_VALUE_CHARS} characters, and less than 1 MiB of white space before it"
                raise _invalid(detail, "values", self._values_before)
            if self._values:
                yield self._take_values()
        self._feed(self._fast_strings.flush())
        self._close()
        if self._values:
            yield self._take_values()

    def _take_values(self) -> list[str]:
        values, self._values = self._values, []
        self._values_before += len(values)
        return values

    def _feed(self, json: bytes) -> bool:
        """Pass bytes to ijson. Returns whether ijson produced an event."""
        if not json:
            return False
        self._surrogate_check.check(json)
        with _malformed():
            self._ijson.send(json)
        return self._handle_events()

    def _close(self) -> None:
        self._surrogate_check.check(b"", last=True)
        with _malformed():
            self._ijson.close()
        self._handle_events()
        for member in self._members:
            if member not in self._parsed_keys:
                raise _invalid("is required", member)

    def _handle_events(self) -> bool:
        made_progress = bool(self._events)
        for event, value in self._events:
            if self._is_in_array:
                self._handle_value(event, value)
            elif self._current_key:
                self._handle_member(event, value)
            elif event == "map_key":
                self._handle_key(value)
            elif not self._has_started and event != "start_map":
                raise _invalid("must be a JSON object")
            self._has_started = True
        self._events.clear()
        return made_progress

    def _handle_key(self, key: str) -> None:
        if key not in self._members:
            raise _invalid("is not a member of this object; correct its name or omit it", key)
        if key in self._parsed_keys:
            raise _invalid("is there twice; send it once", key)
        self._parsed_keys.add(key)
        self._current_key = key

    def _handle_member(self, event: str, value: Any) -> None:
        if self._current_key == "values":
            if event != "start_array":
                raise _invalid("must be an array of strings", "values")
            self._is_in_array = True
        elif event != "string" or not 0 < len(value) <= MAX_DATASET_NAME_CHARS or "\0" in value:
            raise _invalid(f"must be a string of 1 to {MAX_DATASET_NAME_CHARS} characters without NUL", "name")
        else:
            self.name = value
        self._current_key = ""

    def _handle_value(self, event: str, value: Any) -> None:
        if event == "end_array":
            self._is_in_array = False
            return
        index = self._values_before + len(self._values)
        if event != "string":
            raise _invalid("must be a string", "values", index)
        if len(value) > MAX_VALUE_CHARS and len(trim(value)) > MAX_VALUE_CHARS:
            raise _invalid(f"must have at most {MAX_VALUE_CHARS} characters", "values", index)
        self._values.append(value)


class _FastStrings:
    """Decodes runs of complete strings in the array `values`, ten times as fast as ijson.

    A run begins at the opening quote of a value. It ends after the last `",` that is followed by a quote, so the
    remaining buffer begins at the opening quote of the next value. When that `",` is inside of a string, the run is not
    valid JSON. ijson then parses the body from the start of this run, and reports the fault if there is one.
    """

    _START = re.compile(rb'\s*\{\s*(?:"name"\s*:\s*"[^"\\]*"\s*,\s*)?"values"\s*:\s*\[\s*(?=")')
    _END = re.compile(rb'",[ \t\r\n]*(?=")')
    _MAX_HEAD_BYTES = 4096
    _MAX_BUFFER_BYTES = 1 << 16
    _MAX_END_CANDIDATES = 4
    _strings = msgspec.json.Decoder(list[str])

    def __init__(self) -> None:
        self._buffer = b""
        self._step: Callable[[list[str]], bytes] = self._read_head

    def feed(self, chunk: bytes, values: list[str]) -> bytes:
        """Append the values of a run in the buffered bytes to `values`.

        Returns the bytes that ijson must parse.
        """
        self._buffer += chunk
        return self._step(values)

    def flush(self) -> bytes:
        """Return the remaining bytes at the end of the body, which ijson must parse."""
        return self._hand_over_to_ijson()

    def _read_head(self, values: list[str]) -> bytes:
        """Read the body up to its first value."""
        head = self._START.match(self._buffer)
        if head is None:
            return self._hand_over_to_ijson() if len(self._buffer) > self._MAX_HEAD_BYTES else b""
        self._buffer = self._buffer[head.end() :]
        self._step = self._read_run
        return head.group() + self._read_run(values)

    def _read_run(self, values: list[str]) -> bytes:
        end = self._find_end()
        if end is None:
            return self._hand_over_to_ijson() if len(self._buffer) > self._MAX_BUFFER_BYTES else b""
        run = b"[%b]" % self._buffer[: end.start() + 1]
        try:
            values += self._strings.decode(run)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._hand_over_to_ijson()
        self._buffer = self._buffer[end.end() :]
        return b""

    def _find_end(self) -> re.Match[bytes] | None:
        """Return the last place in the buffer where a run may end.

        Only the last few candidates are tried.
        """
        position = len(self._buffer)
        for _ in range(self._MAX_END_CANDIDATES):
            position = self._buffer.rfind(b'",', 0, position)
            if position < 0:
                return None
            if end := self._END.match(self._buffer, position):
                return end
        return None

    def _hand_over_to_ijson(self) -> bytes:
        """Return the buffered bytes, and from now on every chunk as it is."""
        buffered, self._buffer = self._buffer, b""
        self._step = lambda _: self._hand_over_to_ijson()
        return buffered


@contextlib.contextmanager
def _malformed() -> Iterator[None]:
    try:
        yield
    except (ijson.JSONError, ValueError) as error:
        raise MalformedRequest(
            "The body is not valid JSON or is incomplete. Nothing was changed; correct the body and send it again."
        ) from error


def _invalid(detail: str, *path: str | int) -> InvalidInput:
    return InvalidInput("Nothing was changed.", [Fault(pointer(path), detail)])


class _LoneSurrogateCheck:
    r"""Rejects lone surrogates such as `\ud800`, which the C parser of ijson would replace."""

    _ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)
    _MAX_ESCAPE_BYTES = 12

    def __init__(self) -> None:
        self._unchecked = b""

    def check(self, chunk: bytes, *, last: bool = False) -> None:
        """Check the next chunk. Raises MalformedRequest.

        An escape sequence that the end of the chunk may cut off is checked together with the next chunk.
        """
        text = self._unchecked + chunk
        end = len(text) if last else len(text) - self._MAX_ESCAPE_BYTES + 1
        position = text.find(b"\\")
        while 0 <= position < end:
            escape = self._ESCAPE.match(text, position)
            if escape is None:
                break
            if escape.group(1):
                raise MalformedRequest(
                    "The body is not valid JSON: it contains a lone surrogate. Send valid Unicode text."
                )
            position = text.find(b"\\", escape.end())
        self._unchecked = text[position:] if position >= 0 else b""
