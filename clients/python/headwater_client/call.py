"""Requests to the API as values: what to send, and what the response is."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from headwater_client import decoding

T = TypeVar("T")

Content: TypeAlias = Callable[[], Iterable[bytes] | AsyncIterable[bytes]]
"""Returns the chunks of a body that is sent as a stream; each attempt calls it once."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request.

    Attributes:
        result: The type of the response's body.
        query: The query parameters; those with the value None are left out.
        body: The JSON body; None sends none.
        content: In place of `body`, a body that is sent as a stream.
        timeout: The seconds to wait for the server; None takes the client's.
        retriable: Whether the request may be sent again after a failure.
    """

    method: str
    path: str
    result: type[T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content: Content | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    retriable: bool = True

    @property
    def has_body(self) -> bool:
        return self.body is not None or self.content is not None


def path(*segments: str | int) -> str:
    """Return the path of a resource below `/api/v1`.

    >>> path("flow", "01ke0a", "transforms", "a/b")
    '/api/v1/flow/01ke0a/transforms/a%2Fb'
    """
    return "/api/v1/" + "/".join(quote(str(segment), safe="") for segment in segments)


def query_pairs(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the query parameters as text.

    >>> query_pairs({"limit": 10, "zerolag": False, "cursor": None, "of": ["base/log", "base/block"]})
    [('limit', '10'), ('zerolag', 'false'), ('of', 'base/log'), ('of', 'base/block')]
    """
    pairs = []
    for name, value in parameters.items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(name, _text(each)) for each in values if each is not None]
    return pairs


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def decode(body: bytes, result: type[T]) -> T:
    """Return the typed body of a response. Raises msgspec.DecodeError.

    >>> decode(b'{"amount": 123456789012345678901234567890}', dict)
    {'amount': 123456789012345678901234567890}
    """
    if result is type(None):
        return None
    return decoding.decode(body, result)
