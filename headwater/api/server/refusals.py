"""Responses that the server sends instead of the application: problem documents (RFC 9457)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus

import msgspec

from headwater.api.problems import MEDIA_TYPE, PROBLEM_TYPES, RETRY_AFTER_S, URN, ProblemType
from headwater.errors import MalformedRequest

HEAD_TOO_LARGE_TYPE = ProblemType(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", "The request head is too large"
)
TIMEOUT_TYPE = ProblemType(HTTPStatus.REQUEST_TIMEOUT, "request-timeout", "The request timed out")
CONNECTIONS_TYPE = ProblemType(HTTPStatus.TOO_MANY_REQUESTS, "too-many-connections", "Too many connections")
BUSY_TYPE = ProblemType(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "Too many clients")


@dataclass(frozen=True)
class Refusal:
    """A response that refuses a request or a connection.

    The server sends it instead of a response of the application.
    """

    problem_type: ProblemType
    detail: str

    @cached_property
    def _head_start(self) -> bytes:
        """The status line, and the header fields that are the same in every response."""
        status = self.problem_type.status
        retry = f"Retry-After: {RETRY_AFTER_S}\r\n" if status in (429, 503) else ""
        return f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n{retry}".encode()

    def response(self, request_id: str, instance: str, headers: Mapping[str, str]) -> bytes:
        """Return the bytes of the whole response, after which the connection is closed.

        Args:
            instance: The path of the request.
            headers: Additional header fields.
        """
        body = msgspec.json.encode(
            {
                "type": URN + self.problem_type.name,
                "title": self.problem_type.title,
                "status": self.problem_type.status.value,
                "detail": self.detail,
                "instance": instance,
                "request_id": request_id,
            }
        )
        additional = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head_end = f"{additional}X-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return b"".join((self._head_start, head_end.encode(), body))


MALFORMED = Refusal(
    PROBLEM_TYPES[MalformedRequest], "The request is not valid HTTP/1.1. Send it with a client that follows RFC 9112."
)
HEAD_TOO_LARGE = Refusal(
    HEAD_TOO_LARGE_TYPE, "The request line and the header fields are too many or too large. Send fewer or shorter ones."
)
SLOW_HEAD = Refusal(TIMEOUT_TYPE, "The request head did not arrive in time. Send the same request again.")
SLOW_BODY = Refusal(
    TIMEOUT_TYPE, "The body stopped or was sent too slowly. Nothing was changed. Send the whole request again."
)
TOO_MANY_CONNECTIONS = Refusal(
    CONNECTIONS_TYPE,
    "Your address has too many concurrent connections or requests. Close some, or wait until some have ended.",
)
BUSY = Refusal(BUSY_TYPE, "The server has as many connections as it can serve. Send the same request again.")
SERVER_PROBLEM_TYPES: dict[ProblemType, str] = {
    HEAD_TOO_LARGE_TYPE: "The request line and the header fields are over their limit. The connection is closed.",
    TIMEOUT_TYPE: "The head or the body of a request was sent too slowly. The connection is closed; send it again.",
    CONNECTIONS_TYPE: "The client's address has too many concurrent connections or requests.",
    BUSY_TYPE: "All connections that the server may have are in use.",
}
"""The problem types that only the server sends, with the sentence that explains each of them in the documentation."""
