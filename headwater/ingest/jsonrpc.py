"""Calls of a chain node's JSON-RPC 2.0 interface over HTTP. Used by several threads.

The URL carries a key as a rule: no error and no log line names it, and what the node says is cleaned of its parts.
"""

import email.utils
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec
import tenacity

from headwater.errors import NodeRefusesSize, NodeUnavailable
from headwater.ingest.closing import Closing

T = TypeVar("T")

TIMEOUT: Final = httpx.Timeout(15.0, connect=5.0)
ATTEMPTS: Final = 6
PATIENCE_S: Final = 10.0
"""How long one call is tried again here. Beyond it the ingest's loop waits, which a signal can end."""
AGAIN_S: Final = 0.25
SHOWN_CHARS: Final = 200
_SECRET_CHARS: Final = 6


class Error(msgspec.Struct):
    """What a node says in place of a result."""

    code: int = 0
    message: str = ""


class Answer(msgspec.Struct):
    """The answer to one call."""

    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: Error | None = None


_ANSWERS: Final = msgspec.json.Decoder(list[Answer] | Answer)


class Again(Exception):
    """What may go better soon. after_s: what the node asked for."""

    def __init__(self, reason: str, after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after_s = after_s


class Pace:
    """Spaces calls out evenly. rate: calls a second, 0 for no limit."""

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


class Node:
    """url: of the node. rate: calls a second. closing: when it is set, nothing waits and nothing is tried again.

    retries: how often something was sent again.
    """

    def __init__(
        self,
        url: str,
        rate: float,
        closing: Closing,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._url = url
        self._http = httpx.Client(timeout=TIMEOUT)
        self._closing = closing
        self._sleep = sleep or closing.wait
        self._pace = Pace(rate, clock, self._sleep)
        self._secrets = _secrets(url)
        self.retries = 0

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def patiently(self, call: Callable[[], T], what: str = "") -> T:
        """The result of a call that is sent again while it raises Again. what: to name it. Raises NodeUnavailable."""
        try:
            return self._attempts()(call)
        except Again as error:
            raise NodeUnavailable(f"The node does not answer{what}: {error.reason}.", int(error.after_s)) from None

    def _attempts(self) -> tenacity.Retrying:
        jitter = tenacity.wait_random_exponential(AGAIN_S, PATIENCE_S / 2)

        def wait_s(state: tenacity.RetryCallState) -> float:
            self.retries += 1
            return max(jitter(state), _after_s(state))

        def stop(state: tenacity.RetryCallState) -> bool:
            spent_s = (state.seconds_since_start or 0.0) + _after_s(state)
            return state.attempt_number >= ATTEMPTS or spent_s > PATIENCE_S or self._closing.is_set()

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Again), stop=stop, wait=wait_s, sleep=self._wait, reraise=True
        )

    def _wait(self, seconds: float) -> None:
        self._sleep(seconds)

    def post(self, body: bytes, calls: int = 1) -> list[Answer] | Answer:
        """The answers to so many calls, in any order, or one in place of all. Raises Again, NodeUnavailable."""
        self._pace.wait(calls)
        try:
            response = self._closing.result(lambda: self._sent(body))
        except httpx.HTTPError as error:
            raise Again(f"the connection failed ({type(error).__name__})") from None
        status = response.status_code
        if status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            raise NodeRefusesSize("The node refuses a request of this size (HTTP 413).")
        if status in (408, 429) or status >= 500:
            raise Again(f"HTTP {status}", retry_after_s(response))
        return self._answers(response)

    def _sent(self, body: bytes) -> httpx.Response:
        response = self._http.post(self._url, content=body, headers={"Content-Type": "application/json"})
        if self._closing.is_set():  # httpx does not know a connection that was being made when the client was closed
            response.extensions["network_stream"].close()
        return response

    def _answers(self, response: httpx.Response) -> list[Answer] | Answer:
        answers: list[Answer] | Answer
        try:
            answers = _ANSWERS.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if response.is_success:
                raise Again("what it sends is no JSON-RPC") from None
            answers = Answer()
        if not response.is_success and isinstance(answers, Answer) and answers.error is None:
            status = response.status_code
            raise NodeUnavailable(f"The node refuses requests (HTTP {status}): check the URL and the key in it.")
        return answers

    def clean(self, text: str) -> str:
        """What a node said, short and without parts of the URL."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text[:SHOWN_CHARS].strip().rstrip(".")


def _secrets(url: str) -> list[str]:
    """The parts of a URL that may be keys, longest first."""
    parts = urlsplit(url)
    found = [parts.username, parts.password, parts.path, parts.query, *parts.path.split("/")]
    found += [value for _, value in parse_qsl(parts.query)]
    return sorted({part for part in found if part and len(part) >= _SECRET_CHARS}, key=len, reverse=True)


def _after_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return error.after_s if isinstance(error, Again) else 0.0


def retry_after_s(response: httpx.Response) -> float:
    """RFC 9110, section 10.2.3: seconds, or a date."""
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0
