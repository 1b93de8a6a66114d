"""JSON-RPC 2.0 over HTTP to one endpoint of a chain node. Used by several threads.

The URL usually carries a key: no error and no log line names it, and what the node says is cleaned of its parts.
"""

import email.utils
import ipaddress
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec
import tenacity

from headwater.background import WaitLog
from headwater.errors import NodeBusy, NodeUnavailable, RangeTooLarge
from headwater.ingest.closing import Closing

T = TypeVar("T")

TIMEOUT: Final = httpx.Timeout(15.0, connect=5.0)
ATTEMPTS: Final = 6
PATIENCE_S: Final = 10.0
"""How long one request is retried here. After that the ingest's loop waits, which a signal can end."""
AGAIN_S: Final = 0.25
"""The longest wait before the first retry."""
RETRY_AFTER_AT_MOST_S: Final = 3600.0
"""The longest that a node is left alone because it asks for it: some name a time in another century."""
SHOWN_CHARS: Final = 200
_SECRET_CHARS: Final = 6


class ErrorObject(msgspec.Struct):
    """An error object of JSON-RPC 2.0, section 5.1."""

    code: int = 0
    message: str = ""
    data: Any = None


class Response(msgspec.Struct):
    """The response to one call."""

    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorObject | None = None


Responses = list[Response] | Response
_RESPONSES: Final[msgspec.json.Decoder[Responses]] = msgspec.json.Decoder(Responses)


class HttpReply(NamedTuple):
    """An HTTP response. body: None when it is no JSON-RPC. retry_after_s: 0 when the node named no time."""

    status: int
    body: Responses | None
    retry_after_s: float


class TransientFailure(Exception):
    """A request failed, and may succeed when it is sent again.

    after_s: how long the node asked to be left alone. error: what is raised when it fails every time.
    """

    def __init__(self, reason: str, after_s: float = 0.0, error: type[NodeUnavailable] = NodeUnavailable) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after_s = after_s
        self.error = error


class RateLimiter:
    """Spaces calls evenly. rate: calls a second, 0 for no limit."""

    def __init__(self, rate: float, clock: Callable[[], float], sleep: Callable[[float], object]) -> None:
        self._interval_s = 1 / rate if rate else 0.0
        self._clock, self._sleep = clock, sleep
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait(self, calls: int = 1) -> None:
        """Return when so many calls may be sent."""
        if not self._interval_s:
            return
        with self._lock:
            now = self._clock()
            begin = max(now, self._free_at)
            self._free_at = begin + calls * self._interval_s
        self._sleep(begin - now)


class Endpoint:
    """One URL of a node.

    Attributes:
        label: names the node in logs and errors, without the parts of the host that may be secret.
        retries: how many requests were retries.

    rate: calls a second. closing: once it is set, nothing waits and nothing is retried.
    attempts: how often a request is sent that fails.
    """

    def __init__(
        self,
        url: str,
        rate: float,
        closing: Closing,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        timeout: httpx.Timeout = TIMEOUT,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._url = url
        self._attempts = attempts
        self._http = httpx.Client(timeout=timeout)
        self._closing = closing
        self._sleep = sleep or closing.wait
        self._limiter = RateLimiter(rate, clock, self._sleep)
        self._secrets = _secrets(url)
        self._wait_log = WaitLog("a node does not answer; it is asked again")
        self.label = public_host(url)
        self.retries = 0

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def retried(self, call: Callable[[], T], what: str = "", attempts: int | None = None) -> T:
        """Call, and retry on TransientFailure. what: names the call in the error. Raises NodeUnavailable.

        attempts: fewer than usual, for a node that fails and is not just busy.
        """
        try:
            return self._retrying(min(attempts or self._attempts, self._attempts))(call)
        except TransientFailure as failure:
            detail = f"The node {self.label} does not answer{what}: {failure.reason}."
            raise failure.error(detail, math.ceil(failure.after_s)) from None

    def _retrying(self, attempts: int) -> tenacity.Retrying:
        jitter = tenacity.wait_random_exponential(AGAIN_S, PATIENCE_S / 2)

        def wait_s(state: tenacity.RetryCallState) -> float:
            self.retries += 1
            return max(jitter(state), _after_s(state))

        def stop(state: tenacity.RetryCallState) -> bool:
            spent_s = (state.seconds_since_start or 0.0) + _after_s(state)
            most = self._attempts if _is_busy(state) else attempts
            return state.attempt_number >= most or spent_s > PATIENCE_S or self._closing.is_set()

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TransientFailure),
            stop=stop,
            wait=wait_s,
            sleep=self._wait,
            reraise=True,
        )

    def _wait(self, seconds: float) -> None:
        self._sleep(seconds)

    def post(self, body: bytes, calls: int = 1) -> HttpReply:
        """Send a request of so many calls. Raises TransientFailure when there is no HTTP response."""
        self._limiter.wait(calls)
        try:
            response = self._closing.result(lambda: self._sent(body))
        except httpx.HTTPError as error:
            reason = f"the connection failed ({type(error).__name__})"
            self._wait_log.waits(node=self.label, reason=reason)
            raise TransientFailure(reason) from None
        return HttpReply(response.status_code, _decoded(response.content), retry_after_s(response))

    def _sent(self, body: bytes) -> httpx.Response:
        response = self._http.post(self._url, content=body, headers={"Content-Type": "application/json"})
        if self._closing.is_set():  # httpx does not know a connection that was being made when the client was closed
            response.extensions["network_stream"].close()
        return response

    def clean(self, text: str) -> str:
        """What a node said, short and without parts of the URL."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text[:SHOWN_CHARS].strip().rstrip(".")


def checked(reply: HttpReply) -> Responses:
    """The responses of a reply by its HTTP status alone. Raises TransientFailure, NodeUnavailable, RangeTooLarge."""
    status, body = reply.status, reply.body
    if status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        raise RangeTooLarge("The node refuses a request of this size (HTTP 413).")
    if status in (408, 429) or status >= 500:
        raise TransientFailure(f"HTTP {status}", reply.retry_after_s)
    if body is None and httpx.codes.is_success(status):
        raise TransientFailure("the response is no JSON-RPC")
    if body is None or (isinstance(body, Response) and body.error is None and not httpx.codes.is_success(status)):
        raise NodeUnavailable(f"The node refuses requests (HTTP {status}): check the URL and the key in it.")
    return body


def public_host(url: str) -> str:
    """The host of a URL as logs may show it: subdomains are left out, since some providers put a key there."""
    host = urlsplit(url).hostname or "?"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ".".join(host.split(".")[-2:])


def _decoded(content: bytes) -> Responses | None:
    try:
        return _RESPONSES.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _secrets(url: str) -> list[str]:
    """The parts of a URL that may be keys, longest first."""
    parts = urlsplit(url)
    found = [parts.username, parts.password, parts.path, parts.query, *parts.path.split("/")]
    found += [value for _, value in parse_qsl(parts.query)]
    found += (parts.hostname or "").removesuffix(public_host(url)).split(".")
    return sorted({part for part in found if part and len(part) >= _SECRET_CHARS}, key=len, reverse=True)


def _after_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return error.after_s if isinstance(error, TransientFailure) else 0.0


def _is_busy(state: tenacity.RetryCallState) -> bool:
    error = state.outcome.exception() if state.outcome else None
    return isinstance(error, TransientFailure) and error.error is NodeBusy


def retry_after_s(response: httpx.Response) -> float:
    """RFC 9110, section 10.2.3: seconds, or a date; at most RETRY_AFTER_AT_MOST_S."""
    text = response.headers.get("Retry-After", "")
    try:
        asked_s = float(text) if text.isdecimal() else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(0.0, asked_s), RETRY_AFTER_AT_MOST_S)
