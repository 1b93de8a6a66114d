"""A JSON-RPC client of one EVM node: it fits its batches to the node and classifies errors. It is thread-safe."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx
import msgspec

from headwater.errors import MethodMissing, NodeBehind, NodeBusy, NodeUnavailable, RangeTooLarge, RequestRefused
from headwater.ingest.closing import Closing
from headwater.ingest.evm.adaptive import AdaptiveSize
from headwater.ingest.evm.error_kinds import ErrorKind, classify_error
from headwater.ingest.jsonrpc import ATTEMPTS, TIMEOUT, Endpoint, ErrorObject, HttpReply, Response, TransientFailure

Call = tuple[str, Sequence[Any]]
"""A method and its parameters."""
Outcome = msgspec.Raw | NodeUnavailable
"""The result of a call, or why there is none."""

CALLS_AT_ONCE: Final = 20
"""The most calls in one HTTP request."""
BATCH_S: Final = 0.25
"""With a limited rate a batch has at most the calls of this time, so that no call waits long for others."""
TRIES_OF_A_CALL: Final = 2
"""How often a call is sent that is refused in unknown words."""

SERVER_ERROR: Final = 500
_SETTLED: Final = frozenset(
    {ErrorKind.RANGE_TOO_LARGE, ErrorKind.METHOD_MISSING, ErrorKind.UNAUTHORIZED, ErrorKind.UNKNOWN}
)
_ERRORS: Final = {ErrorKind.RATE_LIMITED: NodeBusy, ErrorKind.BEHIND: NodeBehind}
_BATCH: Final = frozenset({ErrorKind.BATCH_TOO_LARGE, ErrorKind.BATCH_UNSUPPORTED})


class _BatchRefused(Exception):
    """A node refuses a batch as a whole.

    limit: the number of calls that it takes, where that is known. lasting: whether its number of calls is the reason.
    """

    def __init__(self, limit: int | None = None, *, lasting: bool = True) -> None:
        super().__init__()
        self.limit = limit
        self.lasting = lasting


class _Exchange:
    """The calls of one `outcomes`, and what is known of each.

    Attributes:
        settled: the outcome of each call that will not be sent again, by its place.
        refused: how often each call was refused in unknown words, by its place.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.settled: dict[int, Outcome] = {}
        self.refused: Counter[int] = Counter()

    def open_places(self) -> list[int]:
        """The places of calls that have no outcome yet."""
        return [place for place in range(len(self.calls)) if place not in self.settled]

    def body(self, places: Sequence[int]) -> bytes:
        """The request of these calls: an array, or one object for a single call."""
        objects = [
            {"jsonrpc": "2.0", "id": place, "method": self.calls[place][0], "params": self.calls[place][1]}
            for place in places
        ]
        return msgspec.json.encode(objects if len(objects) > 1 else objects[0])


class RpcClient:
    """url: of the node. stop: ends all waits. rate: calls a second, 0 for no limit.

    attempts: how often a request is sent that fails; fewer than usual where another node may answer.
    """

    def __init__(
        self,
        url: str,
        stop: threading.Event,
        *,
        rate: float = 0.0,
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        timeout: httpx.Timeout = TIMEOUT,
    ) -> None:
        self._closing = Closing(stop)
        self._endpoint = Endpoint(url, rate, self._closing, clock, sleep, timeout, attempts)
        most = max(1, min(CALLS_AT_ONCE, int(rate * BATCH_S))) if rate else CALLS_AT_ONCE
        self._batch_size = AdaptiveSize(most, most)

    @property
    def label(self) -> str:
        """Names the node without secrets."""
        return self._endpoint.label

    @property
    def batch_size(self) -> int:
        """How many calls one request has at most now."""
        return self._batch_size.value

    @property
    def retries(self) -> int:
        """How many requests were retries."""
        return self._endpoint.retries

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the client is closed."""
        self._closing.wait(seconds)

    def close(self) -> None:
        """Close the connections; calls of other threads fail soon, without the rest of their waits."""
        self._closing.set()
        self._endpoint.close()

    def call(self, method: str, *params: Any, attempts: int | None = None) -> msgspec.Raw:
        """The result of one call. Raises NodeUnavailable."""
        return self.batch([(method, params)], attempts)[0]

    def batch(self, calls: Sequence[Call], attempts: int | None = None) -> list[msgspec.Raw]:
        """The results of calls, in their order. Raises NodeUnavailable when one has none."""
        results: list[msgspec.Raw] = []
        for outcome in self.outcomes(calls, attempts):
            if isinstance(outcome, NodeUnavailable):
                raise outcome
            results.append(outcome)
        return results

    def outcomes(self, calls: Sequence[Call], attempts: int | None = None) -> list[Outcome]:
        """The outcomes of calls, in their order. Raises nothing: a node that is away is the outcome of each call."""
        exchange = _Exchange(calls)
        while left := exchange.open_places():
            try:
                self._endpoint.retried(lambda: self._round(exchange), attempts=attempts)
            except NodeUnavailable as error:
                if len(exchange.open_places()) < len(left) and not error.retry_after_s:
                    continue
                exchange.settled |= dict.fromkeys(exchange.open_places(), error)
        return [exchange.settled[place] for place in range(len(calls))]

    def _round(self, exchange: _Exchange) -> None:
        """Send each open call once. Raises TransientFailure when calls stay open."""
        left, failures, most = exchange.open_places(), list[TransientFailure](), CALLS_AT_ONCE
        while left:
            size = min(most, self._batch_size.value)
            places, left = left[:size], left[size:]
            try:
                failed = self._send(exchange, places)
                failures += failed
                if len(failed) < len(places):
                    self._batch_size.succeeded(len(places))
                else:
                    self._suspect(places, failed[0])
            except _BatchRefused as refused:
                if refused.lasting:
                    self._batch_size.refused(len(places), refused.limit)
                else:
                    most = 1
                left = [place for place in places if place not in exchange.settled] + left
            except TransientFailure as failure:
                self._suspect(places, failure)
                failures.append(failure)
                break
        if failures:
            raise max(failures, key=lambda failure: failure.after_s)

    def _suspect(self, places: Sequence[int], failure: TransientFailure) -> None:
        """Send fewer calls at once after a request without any result, but not because the node is busy or behind."""
        if len(places) > 1 and failure.error is NodeUnavailable:
            self._batch_size.suspected(len(places))

    def _send(self, exchange: _Exchange, places: Sequence[int]) -> list[TransientFailure]:
        """Send these calls in one request. Returns failures of single calls.

        Raises _BatchRefused, and TransientFailure when the whole request failed.
        """
        reply = self._endpoint.post(exchange.body(places), len(places))
        by_id = self._responses(reply, places)
        failures: list[TransientFailure] = []
        for place in places:
            response = by_id.get(place)
            if response is None:
                failures.append(TransientFailure("it left out a response"))
            elif response.error is None:
                exchange.settled[place] = response.result
            elif failure := self._failed(exchange, place, reply, response.error, alone=len(places) == 1):
                failures.append(failure)
        return failures

    def _responses(self, reply: HttpReply, places: Sequence[int]) -> dict[Any, Response]:
        """The responses by the place of their call."""
        body = reply.body
        if isinstance(body, list):
            named = {_number(response.id): response for response in body}
            whole = named.get(None)
            return named if len(named) > 1 or whole is None else self._for_all(reply, places, whole)
        if body is not None and (body.error is not None or (len(places) == 1 and _is_success(reply))):
            return self._for_all(reply, places, body)
        if body is not None or _is_success(reply):
            raise TransientFailure("the response is no JSON-RPC")
        kind = classify_error(reply.status, 0, "")
        if kind is ErrorKind.RANGE_TOO_LARGE:
            return self._for_all(reply, places, Response(error=ErrorObject(0, f"HTTP {reply.status}")))
        if kind is ErrorKind.UNAUTHORIZED or (kind is ErrorKind.UNKNOWN and reply.status < SERVER_ERROR):
            raise NodeUnavailable(f"The node refuses requests (HTTP {reply.status}): check the URL and the key in it.")
        raise TransientFailure(f"HTTP {reply.status}", reply.retry_after_s, _ERRORS.get(kind, NodeUnavailable))

    def _for_all(self, reply: HttpReply, places: Sequence[int], response: Response) -> dict[Any, Response]:
        """One response in place of those to all calls. Raises _BatchRefused, TransientFailure."""
        if len(places) == 1:
            return {places[0]: response}
        error = response.error or ErrorObject()
        kind = self._kind_of(reply, error)
        if kind is ErrorKind.UNAUTHORIZED:
            return dict.fromkeys(places, response)
        if kind is ErrorKind.BATCH_UNSUPPORTED:
            raise _BatchRefused(limit=1)
        if kind in (ErrorKind.BATCH_TOO_LARGE, ErrorKind.RANGE_TOO_LARGE):
            raise _BatchRefused
        if kind is ErrorKind.METHOD_MISSING:
            raise _BatchRefused(lasting=False)
        raise self._transient(reply, error, kind)

    def _failed(
        self, exchange: _Exchange, place: int, reply: HttpReply, error: ErrorObject, *, alone: bool
    ) -> TransientFailure | None:
        """Settle a call that was refused, or return why it stays open. Raises _BatchRefused."""
        kind, method = self._kind_of(reply, error), exchange.calls[place][0]
        if kind in _BATCH or (kind is ErrorKind.RANGE_TOO_LARGE and method != "eth_getLogs"):
            if not alone:
                raise _BatchRefused(limit=1 if kind is ErrorKind.BATCH_UNSUPPORTED else None)
            kind = ErrorKind.RANGE_TOO_LARGE
        if kind is ErrorKind.UNKNOWN:
            exchange.refused[place] += 1
        open_ = kind is ErrorKind.UNKNOWN and exchange.refused[place] < TRIES_OF_A_CALL
        if open_ or kind not in _SETTLED:
            return self._transient(reply, error, kind)
        exchange.settled[place] = _settled(kind, method, f"{self._said(error)} ({error.code})")
        return None

    def _kind_of(self, reply: HttpReply, error: ErrorObject) -> ErrorKind:
        more = error.data if isinstance(error.data, str) else ""
        return classify_error(reply.status, error.code, f"{error.message} {more}".strip())

    def _said(self, error: ErrorObject) -> str:
        return self._endpoint.clean(error.message)

    def _transient(self, reply: HttpReply, error: ErrorObject, kind: ErrorKind) -> TransientFailure:
        said = f"it says {self._said(error)!r} ({error.code})"
        reason = f"it is busy: {said}" if kind is ErrorKind.RATE_LIMITED else said
        return TransientFailure(reason, reply.retry_after_s, _ERRORS.get(kind, NodeUnavailable))


def _number(id_: int | str | None) -> int | str | None:
    """The id that a response repeats. Some nodes send a number back as text."""
    return int(id_) if isinstance(id_, str) and id_.isdecimal() else id_


def _is_success(reply: HttpReply) -> bool:
    return httpx.codes.is_success(reply.status)


def _settled(kind: ErrorKind, method: str, said: str) -> NodeUnavailable:
    """The outcome of a call that is not sent again. said: what the node says."""
    if kind is ErrorKind.RANGE_TOO_LARGE:
        return RangeTooLarge(f"The node refuses so much at once by {method}: {said}.")
    if kind is ErrorKind.METHOD_MISSING:
        return MethodMissing(f"The node does not offer {method}: {said}.")
    if kind is ErrorKind.UNAUTHORIZED:
        return NodeUnavailable(f"The node refuses requests: {said}: check the URL and the key in it.")
    return RequestRefused(f"The node refuses {method}: {said}.")
