"""Sends JSON-RPC 2.0 requests over HTTP to one endpoint of a chain node.

Several threads may send requests. The URL usually contains an API key. No error or log line contains the URL, and the
parts of the URL are removed from the messages of the node.
"""

import email.utils
import ipaddress
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx2
import msgspec
import tenacity

from headwater.errors import NodeCallTooLarge, NodeError, NodeRateLimited, NodeUnavailable
from headwater.ingest.cancellation import CancelToken
from headwater.wait_log import WaitLog

T = TypeVar("T")

TIMEOUT: Final = httpx2.Timeout(15.0, connect=5.0)
MAX_ATTEMPTS: Final = 6
RETRY_DEADLINE_S: Final = 10.0
"""The total time for which one request is retried.

After this time the loop of the ingest gets the error. It counts the error, and waits longer between its own attempts.
"""
MAX_FIRST_BACKOFF_S: Final = 0.25
"""The longest wait before the first retry, unless the node's Retry-After is longer."""
MAX_RETRY_AFTER_S: Final = 3600.0
"""The upper limit of a Retry-After. Some nodes send dates in another century."""
MAX_QUOTED_CHARS: Final = 200
_MIN_SECRET_CHARS: Final = 6


class ErrorObject(msgspec.Struct):
    """An error object (JSON-RPC 2.0, section 5.1)."""

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


class HttpResponse(NamedTuple):
    """An HTTP response.

    Attributes:
        status: The HTTP status.
        body: The JSON-RPC responses; None when the body is not JSON-RPC.
        retry_after_s: The header Retry-After in seconds; 0 without that header.
    """

    status: int
    body: Responses | None
    retry_after_s: float


class RetriableError(Exception):
    """A request failed, and may succeed when it is sent again.

    Attributes:
        reason: What is wrong.
        retry_after_s: The node's Retry-After in seconds, or 0.
        final_error: The exception class to raise when all attempts fail.
    """

    def __init__(self, reason: str, retry_after_s: float = 0.0, final_error: type[NodeError] = NodeUnavailable) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.final_error = final_error


class RateLimiter:
    """Spaces calls evenly. `rate` is the number of calls per second, 0 for no limit."""

    def __init__(self, rate: float, clock: Callable[[], float], sleep: Callable[[float], object]) -> None:
        self._interval_s = 1 / rate if rate else 0.0
        self._clock, self._sleep = clock, sleep
        self._free_at = 0.0
        self._lock = threading.Lock()

    def wait(self, calls: int = 1) -> None:
        """Block until this many calls may be sent."""
        if not self._interval_s:
            return
        with self._lock:
            now = self._clock()
            begin = max(now, self._free_at)
            self._free_at = begin + calls * self._interval_s
        self._sleep(begin - now)


class Endpoint:
    """Sends JSON-RPC requests to one URL of a node.

    Args:
        url: The URL.
        rate: The calls per second; 0 for no limit.
        cancel_token: Once it is set, waits end and nothing is retried.
        clock: Returns monotonic seconds.
        sleep: Waits for some seconds. The default ends early when the token is set.
        timeout: The timeouts of one request.
        attempts: The maximum number of times that a failing request is sent.

    Attributes:
        label: The name of the node in logs and errors, without the parts of the host that may be secret.
        retries: The number of requests that were sent again.
    """

    def __init__(
        self,
        url: str,
        rate: float,
        cancel_token: CancelToken,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        timeout: httpx2.Timeout = TIMEOUT,
        attempts: int = MAX_ATTEMPTS,
    ) -> None:
        self._url = url
        self._attempts = attempts
        self._http = httpx2.Client(timeout=timeout)
        self._cancel_token = cancel_token
        self._sleep = sleep or cancel_token.wait
        self._limiter = RateLimiter(rate, clock, self._sleep)
        self._secrets = _secrets(url)
        self._wait_log = WaitLog("a node does not answer; the request is repeated")
        self._count_lock = threading.Lock()
        self.label = public_host(url)
        self.retries = 0

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call_with_retries(self, call: Callable[[], T], what: str = "", attempts: int | None = None) -> T:
        """Call a function, and call it again after a RetriableError. Raises NodeError.

        Args:
            call: The function.
            what: Describes the call in the error message, and begins with a space, as in " getBlock of slot 5".
            attempts: A smaller number of attempts, for failures other than rate limiting.
        """
        try:
            return self._retrying(min(attempts or self._attempts, self._attempts))(call)
        except RetriableError as failure:
            detail = f"The request{what} to the node {self.label} failed: {failure.reason}."
            raise failure.final_error(detail, math.ceil(failure.retry_after_s)) from None

    def _retrying(self, attempts: int) -> tenacity.Retrying:
        jitter = tenacity.wait_random_exponential(MAX_FIRST_BACKOFF_S, RETRY_DEADLINE_S / 2)

        def wait_s(state: tenacity.RetryCallState) -> float:
            return max(jitter(state), _retry_after_s(state))

        def stop(state: tenacity.RetryCallState) -> bool:
            spent_s = (state.seconds_since_start or 0.0) + _retry_after_s(state)
            max_attempts = self._attempts if _is_rate_limited(state) else attempts
            return state.attempt_number >= max_attempts or spent_s > RETRY_DEADLINE_S or self._cancel_token.is_set()

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(RetriableError),
            stop=stop,
            wait=wait_s,
            sleep=self._wait_before_retry,
            reraise=True,
        )

    def _wait_before_retry(self, seconds: float) -> None:
        """Count a retry, and wait.

        Tenacity calls this only for an attempt that is followed by another one.
        """
        with self._count_lock:
            self.retries += 1
        self._sleep(seconds)

    def post(self, body: bytes, calls: int = 1) -> HttpResponse:
        """Send a request that contains this many calls.

        Raises RetriableError when there is no HTTP response, and IngestCancelled when the cancel token is set.
        """
        self._limiter.wait(calls)
        try:
            response = self._cancel_token.run_abandonable(lambda: self._post_once(body))
        except httpx2.HTTPError as error:
            reason = f"the connection failed ({type(error).__name__})"
            self._wait_log.log_if_due(node=self.label, reason=reason)
            raise RetriableError(reason) from None
        return HttpResponse(response.status_code, _decode(response.content), parse_retry_after(response))

    def _post_once(self, body: bytes) -> httpx2.Response:
        response = self._http.post(self._url, content=body, headers={"Content-Type": "application/json"})
        # httpx2 does not close a connection that was being opened when the client was closed.
        if self._cancel_token.is_set():
            response.extensions["network_stream"].close()
        return response

    def redact_and_shorten(self, text: str) -> str:
        """Replace the parts of the URL in a message of the node by `…`, and shorten it."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text[:MAX_QUOTED_CHARS].strip().rstrip(".")


def require_success(response: HttpResponse) -> Responses:
    """Return the JSON-RPC responses of an HTTP response.

    Raises NodeCallTooLarge for HTTP 413; RetriableError for 408, 429, 5xx and a success whose body is not JSON-RPC; and
    NodeUnavailable for another failure without a JSON-RPC error. The caller handles JSON-RPC errors.
    """
    status, body = response.status, response.body
    if status == httpx2.codes.CONTENT_TOO_LARGE:
        raise NodeCallTooLarge("The node refuses a request of this size (HTTP 413).")
    if status in (408, 429) or status >= 500:
        raise RetriableError(f"HTTP {status}", response.retry_after_s)
    if body is None and httpx2.codes.is_success(status):
        raise RetriableError("the response is not JSON-RPC")
    if body is None or (isinstance(body, Response) and body.error is None and not httpx2.codes.is_success(status)):
        raise NodeUnavailable(f"The node refuses requests (HTTP {status}): check the URL and the key in it.")
    return body


def public_host(url: str) -> str:
    """Return the host of a URL for logs, without subdomains.

    Some providers put a key into a subdomain.
    """
    host = urlsplit(url).hostname or "?"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ".".join(host.split(".")[-2:])


def _decode(content: bytes) -> Responses | None:
    try:
        return _RESPONSES.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _secrets(url: str) -> list[str]:
    """Return the parts of a URL that may be keys, longest first."""
    parts = urlsplit(url)
    candidates = [parts.username, parts.password, parts.path, parts.query, *parts.path.split("/")]
    candidates += [value for _, value in parse_qsl(parts.query)]
    candidates += (parts.hostname or "").removesuffix(public_host(url)).split(".")
    return sorted({part for part in candidates if part and len(part) >= _MIN_SECRET_CHARS}, key=len, reverse=True)


def _retry_after_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after_s if isinstance(error, RetriableError) else 0.0


def _is_rate_limited(state: tenacity.RetryCallState) -> bool:
    error = state.outcome.exception() if state.outcome else None
    return isinstance(error, RetriableError) and error.final_error is NodeRateLimited


def parse_retry_after(response: httpx2.Response) -> float:
    """Return the header Retry-After (RFC 9110) in seconds, at most MAX_RETRY_AFTER_S."""
    text = response.headers.get("Retry-After", "")
    try:
        seconds = float(text) if text.isdecimal() else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S)
