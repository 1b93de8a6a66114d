"""Responses that the server sends instead of the application: problem documents (RFC 9457)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus

import msgspec

from headwater.api.problems import KINDS, MEDIA_TYPE, RETRY_AFTER_S, URN, Kind
from headwater.errors import MalformedRequest

HEAD_TOO_LARGE_KIND = Kind(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", "The request head is too large"
)
TIMEOUT_KIND = Kind(HTTPStatus.REQUEST_TIMEOUT, "request-timeout", "The request came too slowly")
CONNECTIONS_KIND = Kind(HTTPStatus.TOO_MANY_REQUESTS, "too-many-connections", "Too many connections")
BUSY_KIND = Kind(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "Too many clients")


@dataclass(frozen=True)
class Refusal:
    """One reason to refuse a client."""

    kind: Kind
    detail: str

    @cached_property
    def _lines(self) -> bytes:
        status = self.kind.status
        retry = f"Retry-After: {RETRY_AFTER_S}\r\n" if status in (429, 503) else ""
        return f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n{retry}".encode()

    def response(self, request_id: str, instance: str, headers: Mapping[str, str]) -> bytes:
        """The bytes of the whole response, after which the connection is closed. headers: Further ones."""
        body = msgspec.json.encode(
            {
                "type": URN + self.kind.name,
                "title": self.kind.title,
                "status": self.kind.status.value,
                "detail": self.detail,
                "instance": instance,
                "request_id": request_id,
            }
        )
        further = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        rest = f"{further}X-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return b"".join((self._lines, rest.encode(), body))


MALFORMED = Refusal(
    KINDS[MalformedRequest], "The request is not valid HTTP/1.1. Send it with a client that follows RFC 9112."
)
HEAD_TOO_LARGE = Refusal(
    HEAD_TOO_LARGE_KIND, "The request line and the header fields are too many or too large. Send fewer or shorter ones."
)
SLOW_HEAD = Refusal(TIMEOUT_KIND, "The request head did not come in time. Send the same request again.")
SLOW_BODY = Refusal(
    TIMEOUT_KIND, "The body stopped coming, or came too slowly. Nothing was changed. Send all of it again."
)
TOO_MANY_CONNECTIONS = Refusal(
    CONNECTIONS_KIND,
    "Your address has too many connections or requests at once. Close some, or wait until some have ended.",
)
BUSY = Refusal(BUSY_KIND, "The server has as many connections as it can serve. Send the same request again.")
SERVER_KINDS: dict[Kind, str] = {
    HEAD_TOO_LARGE_KIND: "The request line and the header fields are over their limit. The connection is closed.",
    TIMEOUT_KIND: "The head or the body of a request came too slowly. The connection is closed; send it again.",
    CONNECTIONS_KIND: "The client's address has too many connections or requests at once.",
    BUSY_KIND: "All connections that the server may have are in use.",
}
"""The kinds of problems that only the server sends, with the reason of each."""
