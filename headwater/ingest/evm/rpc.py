"""A client of a node's JSON-RPC 2.0 interface over HTTP. Used by several threads.

The URL carries a key as a rule: no error and no log line names it, and what the node says is cleaned of its parts.
"""

import email.utils
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec
import tenacity

from headwater.errors import NodeLacksMethod, NodeRefusesSize, NodeUnavailable

Call = tuple[str, Sequence[Any]]
"""A method and its parameters."""

TIMEOUT: Final = httpx.Timeout(15.0, connect=5.0)
ATTEMPTS: Final = 6
PATIENCE_S: Final = 10.0
"""How long one call is tried again here. Beyond it the ingest's loop waits, which a signal can end."""
AGAIN_S: Final = 0.25
CALLS_AT_ONCE: Final = 20
"""Calls in one HTTP request, at first: fewer when the node refuses so many."""
BATCH_S: Final = 0.25
"""With a limited rate a batch has at most the calls of this time, so that no call waits long for others."""
SHOWN_CHARS: Final = 200
_SECRET_CHARS: Final = 6

_METHOD_NOT_FOUND: Final = -32601
_BUSY_CODES: Final = frozenset({429, -32007, -32029, -32090, -32097})
# Nodes and providers agree on few codes, so the sentence decides; a limit of the rate comes before one of the size.
_BUSY: Final = re.compile(
    r"\brate\b|per (second|minute|day)|quota|credits|capacity|throughput|too many requests|throttl", re.IGNORECASE
)
_LACKS: Final = re.compile(r"method.*(not|n't|un)|unsupported method|not supported", re.IGNORECASE)
_SIZE: Final = re.compile(
    r"range|batch|too (large|big|many|wide|long)|more than|exceed|limit|max|size|timeout|timed out|aborted",
    re.IGNORECASE,
)


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Answer(msgspec.Struct):
    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


_ANSWERS: Final = msgspec.json.Decoder(list[_Answer] | _Answer)


class _Again(Exception):
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

    def wait(self, calls: int) -> None:
        """Return when so many calls may be sent."""
        if not self._interval_s:
            return
        with self._lock:
            now = self._clock()
            begin = max(now, self._free_at)
            self._free_at = begin + calls * self._interval_s
        self._sleep(begin - now)


class Rpc:
    """url: of the node. rate: calls a second. retries: how often something was sent again."""

    def __init__(
        self,
        url: str,
        *,
        rate: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._url = url
        self._http = httpx.Client(timeout=TIMEOUT)
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._pace = Pace(rate, clock, self._sleep)
        self._secrets = _secrets(url)
        self._at_once = max(1, min(CALLS_AT_ONCE, int(rate * BATCH_S))) if rate else CALLS_AT_ONCE
        self.retries = 0

    def close(self) -> None:
        """Close the connections; calls of other threads fail soon, without the rest of their waits."""
        self._closed.set()
        self._http.close()

    def call(self, method: str, *params: Any) -> msgspec.Raw:
        """The result of one call. Raises NodeUnavailable."""
        return self.batch([(method, params)])[0]

    def batch(self, calls: Sequence[Call]) -> list[msgspec.Raw]:
        """The results of calls, in their order. Raises NodeUnavailable, NodeRefusesSize, NodeLacksMethod."""
        results: dict[int, msgspec.Raw] = {}
        try:
            for attempt in self._attempts():
                with attempt:
                    self._round(calls, results)
        except _Again as error:
            raise NodeUnavailable(f"The node does not answer: {error.reason}.", int(error.after_s)) from None
        return [results[place] for place in range(len(calls))]

    def _attempts(self) -> tenacity.Retrying:
        jitter = tenacity.wait_random_exponential(AGAIN_S, PATIENCE_S / 2)

        def wait_s(state: tenacity.RetryCallState) -> float:
            self.retries += 1
            return max(jitter(state), _after_s(state))

        def stop(state: tenacity.RetryCallState) -> bool:
            spent_s = (state.seconds_since_start or 0.0) + _after_s(state)
            return state.attempt_number >= ATTEMPTS or spent_s > PATIENCE_S

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Again),
            stop=stop,
            wait=wait_s,
            sleep=self._wait,
            reraise=True,
        )

    def _wait(self, seconds: float) -> None:
        self._sleep(seconds)

    def _round(self, calls: Sequence[Call], results: dict[int, msgspec.Raw]) -> None:
        """Ask for what has no result yet. Raises _Again when something has none after it."""
        left = [place for place in range(len(calls)) if place not in results]
        failed: list[_Again] = []
        while left:
            now, left = left[: self._at_once], left[self._at_once :]
            try:
                failed += self._send(calls, now, results)
            except NodeRefusesSize:
                if len(now) == 1:
                    raise
                self._at_once = len(now) // 2
                left = now + left
        if failed:
            raise max(failed, key=lambda error: error.after_s)

    def _send(self, calls: Sequence[Call], places: Sequence[int], results: dict[int, msgspec.Raw]) -> list[_Again]:
        self._pace.wait(len(places))
        if self._closed.is_set():
            raise NodeUnavailable("The ingest ends; the node is asked no more.")
        sent = [
            {"jsonrpc": "2.0", "id": place, "method": calls[place][0], "params": calls[place][1]} for place in places
        ]
        answers = self._post(msgspec.json.encode(sent if len(sent) > 1 else sent[0]), len(sent))
        by_id = {answer.id: answer for answer in answers}
        failed: list[_Again] = []
        for place in places:
            answer = by_id.get(place)
            if answer is None:
                failed.append(_Again("it left out an answer"))
            elif answer.error is None:
                results[place] = answer.result
            else:
                failed.append(self._judge(answer.error))
        return failed

    def _post(self, body: bytes, count: int) -> list[_Answer]:
        try:
            response = self._http.post(self._url, content=body, headers={"Content-Type": "application/json"})
        except httpx.HTTPError as error:
            raise _Again(f"the connection failed ({type(error).__name__})") from None
        if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            raise NodeRefusesSize("The node refuses a request of this size (HTTP 413).")
        if response.status_code in (408, 429) or response.status_code >= 500:
            raise _Again(f"HTTP {response.status_code}", _retry_after_s(response))
        try:
            answers = _ANSWERS.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._refuse_status(response)
        if isinstance(answers, list):
            return answers
        if count > 1 or response.is_error:  # one error in place of all answers
            raise self._judge(answers.error or _Error())
        return [answers]

    def _refuse_status(self, response: httpx.Response) -> NoReturn:
        if response.is_success:
            raise _Again("what it sends is no JSON-RPC")
        status = response.status_code
        raise NodeUnavailable(f"The node refuses requests (HTTP {status}): check the URL and the key in it.")

    def _judge(self, error: _Error) -> _Again:
        """What an error means: returned when it may go better soon, raised otherwise."""
        said = self.clean(error.message)
        if error.code in _BUSY_CODES or _BUSY.search(error.message):
            return _Again(f"it is busy ({said})")
        if error.code == _METHOD_NOT_FOUND or ("batch" not in error.message and _LACKS.search(error.message)):
            raise NodeLacksMethod(f"The node lacks a method: {said}.")
        if _SIZE.search(error.message):
            raise NodeRefusesSize(f"The node refuses so much at once: {said}.")
        return _Again(f"it says {said!r} ({error.code})")

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
    return error.after_s if isinstance(error, _Again) else 0.0


def _retry_after_s(response: httpx.Response) -> float:
    """RFC 9110, section 10.2.3: seconds, or a date."""
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0
