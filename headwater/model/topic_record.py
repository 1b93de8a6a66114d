"""Records of topics as the API reads them, one by one, and their JSON form."""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec

Header = tuple[str, bytes | None]
RecordPosition = tuple[int, int]
"""The partition and the offset of a record."""


@dataclass(frozen=True)
class TopicRecord:
    """A committed record of a topic.

    The JSON form is computed once, since the record may be shown to several users.

    Attributes:
        timestamp_ms: The record's Kafka timestamp, in milliseconds since the epoch; None when the record has none.
        headers: The headers in their order. A name may be repeated.
    """

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def position(self) -> RecordPosition:
        """The partition and the offset."""
        return self.partition, self.offset

    @property
    def size(self) -> int:
        """The bytes of the key, the value and the headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers

    @cached_property
    def json(self) -> bytes:
        """The JSON object that shows the record without its headers."""
        return msgspec.json.encode(self._members())

    @cached_property
    def json_with_headers(self) -> bytes:
        """The JSON object that shows the record with its headers."""
        return msgspec.json.encode(self._members() | _header_members(self.headers))

    def _members(self) -> dict[str, Any]:
        return {
            **record_member(self.value),
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": _timestamp(self.timestamp_ms),
            **_text_member("key", self.key),
        }


def record_member(value: bytes | None) -> dict[str, Any]:
    """Return the member for a record: `record` with raw JSON, or `record_base64`.

    The value is in base64 when it is not JSON, or is nested too deeply to be checked. Raw JSON keeps all digits of
    numbers. A tombstone is the record null. The JSON text gets no line breaks, which would end a line of an event
    stream. Valid JSON has them only between tokens.
    """
    if value is None:
        return {"record": None}
    try:
        # Any cheap function may parse the numbers, because they are not used.
        json.loads(value.decode(), parse_int=len, parse_float=len, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return {"record_base64": base64.b64encode(value).decode()}
    return {"record": msgspec.Raw(value.replace(b"\n", b" ").replace(b"\r", b" "))}


def _reject_constant(constant: str) -> None:
    """Reject NaN and Infinity, which `json` accepts."""
    raise ValueError(f"{constant} is not JSON")


def _text_member(name: str, text: bytes | None) -> dict[str, Any]:
    """Return a member with a text, or `<name>_base64` when the bytes are not UTF-8."""
    try:
        return {name: None if text is None else text.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(text or b"").decode()}


def _header_members(headers: Iterable[Header]) -> dict[str, Any]:
    """Return the headers as an object, with the last value of a repeated name."""
    members: dict[str, dict[str, Any]] = {"headers": {}}
    for name, value in dict(headers).items():
        for member, text in _text_member("headers", value).items():
            members.setdefault(member, {})[name] = text
    return members


def _timestamp(ms: int | None) -> str | None:
    """Return a time as all responses show it.

    Returns None when there is none, or when it is not in the years 1 to 9999.
    """
    try:
        time = None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return None if time is None else time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
