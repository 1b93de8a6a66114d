"""A JSON-RPC client of one EVM node, which adapts its batch size to the node and classifies errors."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx2
import msgspec

from headwater.errors import MethodMissing, NodeBehind, NodeRateLimited, NodeUnavailable, RangeTooLarge, RequestRefused
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.evm.adaptive import AdaptiveSize
from headwater.ingest.evm.error_kinds import ErrorKind, classify_error
from headwater.ingest.jsonrpc import MAX_ATTEMPTS, TIMEOUT, Endpoint, ErrorObject, HttpReply, Response, RetriableError

Call = tuple[str, Sequence[Any]]
"""A method and its parameters."""
Outcome = msgspec.Raw | NodeUnavailable
"""The result of a call, or its error."""

CALLS_AT_ONCE: Final = 20
"""The most calls in one HTTP request."""
BATCH_WINDOW_S: Final = 0.25
"""With a rate limit, a batch has at most the calls of this time, so that no call waits long for others."""
MAX_UNKNOWN_ERRORS: Final = 2
"""The number of unknown errors after which a call is not sent again."""

SERVER_ERROR: Final = 500
_FINAL_KINDS: Final = frozenset(
    {ErrorKind.RANGE_TOO_LARGE, ErrorKind.METHOD_MISSING, ErrorKind.UNAUTHORIZED, ErrorKind.UNKNOWN}
)
_ERRORS: Final = {ErrorKind.RATE_LIMITED: NodeRateLimited, ErrorKind.BEHIND: NodeBehind}
_BATCH: Final = frozenset({ErrorKind.BATCH_TOO_LARGE, ErrorKind.BATCH_UNSUPPORTED})


class _BatchRefused(Exception):
    """A node refuses a whole batch.

    Attributes:
        limit: The most calls that the node accepts, if known.
        is_size_related: Whether the size of the batch is the cause.
    """

    def __init__(self, limit: int | None = None, *, is_size_related: bool = True) -> None:
        super().__init__()
        self.limit = limit
        self.is_size_related = is_size_related


class _PendingCalls:
    """The calls of one invocation of `RpcClient.outcomes`, with their states.

    Attributes:
        outcomes: The outcome of each call that will not be sent again, by its index.
        refused: The number of unknown errors of each call, by its index.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.outcomes: dict[int, Outcome] = {}
        self.refused: Counter[int] = Counter()

    def pending_indexes(self) -> list[int]:
        """Return the indexes of calls that have no outcome yet."""
        return [index for index in range(len(self.calls)) if index not in self.outcomes]

    def body(self, indexes: Sequence[int]) -> bytes:
        """Encode a request with these calls: an array, or one object for a single call."""
        objects = [
            {"jsonrpc": "2.0", "id": index, "method": self.calls[index][0], "params": self.calls[index][1]}
            for index in indexes
        ]
        return msgspec.json.encode(objects if len(objects) > 1 else objects[0])


class RpcClient:
    """A batching JSON-RPC client of one node. Thread-safe.

    Args:
        url: The node's URL.
        stop: Cancels all waits.
        rate: The calls per second; 0 for no limit.
        attempts: The most times that a failing request is sent; fewer when there are other nodes.
        clock: Returns monotonic seconds.
        sleep: Waits for some seconds. The default ends early when the client is closed.
        timeout: The time-outs of one request.
    """

    def __init__(
        self,
        url: str,
        stop: threading.Event,
        *,
        rate: float = 0.0,
        attempts: int = MAX_ATTEMPTS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        timeout: httpx2.Timeout = TIMEOUT,
    ) -> None:
        self._cancel_token = CancelToken(stop)
        self._endpoint = Endpoint(
            url, rate, self._cancel_token, clock=clock, sleep=sleep, timeout=timeout, attempts=attempts
        )
        most = max(1, min(CALLS_AT_ONCE, int(rate * BATCH_WINDOW_S))) if rate else CALLS_AT_ONCE
        self._batch_size = AdaptiveSize(most, most)

    @property
    def label(self) -> str:
        """The name of the node in logs and errors, without secrets."""
        return self._endpoint.label

    @property
    def batch_size(self) -> int:
        """The current limit of calls per request."""
        return self._batch_size.value

    @property
    def retries(self) -> int:
        """The number of requests that were retries."""
        return self._endpoint.retries

    def wait(self, seconds: float) -> None:
        """Wait for this many seconds, or until the client is closed."""
        self._cancel_token.wait(seconds)

    def close(self) -> None:
        """Close the connections, and cancel the waits of other threads, whose calls then fail."""
        self._cancel_token.set()
        self._endpoint.close()

    def call(self, method: str, *params: Any, attempts: int | None = None) -> msgspec.Raw:
        """Return the result of one call. Raises NodeUnavailable."""
        return self.batch([(method, params)], attempts)[0]

    def batch(self, calls: Sequence[Call], attempts: int | None = None) -> list[msgspec.Raw]:
        """Return the results of calls, in their order. Raises NodeUnavailable when a call fails."""
        results: list[msgspec.Raw] = []
        for outcome in self.outcomes(calls, attempts):
            if isinstance(outcome, NodeUnavailable):
                raise outcome
            results.append(outcome)
        return results

    def outcomes(self, calls: Sequence[Call], attempts: int | None = None) -> list[Outcome]:
        """Return the outcomes of calls, in their order. When the node is unavailable, that error is the outcome."""
        pending = _PendingCalls(calls)
        while left := pending.pending_indexes():
            try:
                self._endpoint.call_with_retries(lambda: self._round(pending), attempts=attempts)
            except NodeUnavailable as error:
                if len(pending.pending_indexes()) < len(left) and not error.retry_after_s:
                    continue
                pending.outcomes |= dict.fromkeys(pending.pending_indexes(), error)
        return [pending.outcomes[index] for index in range(len(calls))]

    def _round(self, pending: _PendingCalls) -> None:
        """Send each pending call once. Raises RetriableError when calls stay pending."""
        left, failures, most = pending.pending_indexes(), list[RetriableError](), CALLS_AT_ONCE
        while left:
            size = min(most, self._batch_size.value)
            indexes, left = left[:size], left[size:]
            try:
                failed = self._send(pending, indexes)
                failures += failed
                if len(failed) < len(indexes):
                    self._batch_size.succeeded(len(indexes))
                else:
                    self._suspect(indexes, failed[0])
            except _BatchRefused as refused:
                if refused.is_size_related:
                    self._batch_size.refused(len(indexes), refused.limit)
                else:
                    most = 1
                left = [index for index in indexes if index not in pending.outcomes] + left
            except RetriableError as failure:
                self._suspect(indexes, failure)
                failures.append(failure)
                break
        if failures:
            raise max(failures, key=lambda failure: failure.after_s)

    def _suspect(self, indexes: Sequence[int], failure: RetriableError) -> None:
        """Reduce the batch size after a request without any result, unless the node is busy or lags."""
        if len(indexes) > 1 and failure.error is NodeUnavailable:
            self._batch_size.suspected(len(indexes))

    def _send(self, pending: _PendingCalls, indexes: Sequence[int]) -> list[RetriableError]:
        """Send these calls in one request. Returns the failures of single calls.

        Raises _BatchRefused, and RetriableError when the whole request failed.
        """
        reply = self._endpoint.post(pending.body(indexes), len(indexes))
        by_id = self._responses(reply, indexes)
        failures: list[RetriableError] = []
        for index in indexes:
            response = by_id.get(index)
            if response is None:
                failures.append(RetriableError("it omitted a response"))
            elif response.error is None:
                pending.outcomes[index] = response.result
            elif failure := self._failed(pending, index, reply, response.error, alone=len(indexes) == 1):
                failures.append(failure)
        return failures

    def _responses(self, reply: HttpReply, indexes: Sequence[int]) -> dict[Any, Response]:
        """Return the responses by the index of their call. Raises RetriableError, NodeUnavailable, _BatchRefused."""
        body = reply.body
        if isinstance(body, list):
            named = {_number(response.id): response for response in body}
            whole = named.get(None)
            return named if len(named) > 1 or whole is None else self._for_all(reply, indexes, whole)
        if body is not None and (body.error is not None or (len(indexes) == 1 and _is_success(reply))):
            return self._for_all(reply, indexes, body)
        if body is not None or _is_success(reply):
            raise RetriableError("the response is not JSON-RPC")
        kind = classify_error(reply.status, 0, "")
        if kind is ErrorKind.RANGE_TOO_LARGE:
            return self._for_all(reply, indexes, Response(error=ErrorObject(0, f"HTTP {reply.status}")))
        if kind is ErrorKind.UNAUTHORIZED or (kind is ErrorKind.UNKNOWN and reply.status < SERVER_ERROR):
            raise NodeUnavailable(f"The node refuses requests (HTTP {reply.status}): check the URL and the key in it.")
        raise RetriableError(f"HTTP {reply.status}", reply.retry_after_s, _ERRORS.get(kind, NodeUnavailable))

    def _for_all(self, reply: HttpReply, indexes: Sequence[int], response: Response) -> dict[Any, Response]:
        """Handle a single response to all calls. Raises _BatchRefused, RetriableError."""
        if len(indexes) == 1:
            return {indexes[0]: response}
        error = response.error or ErrorObject()
        kind = self._kind_of(reply, error)
        if kind is ErrorKind.UNAUTHORIZED:
            return dict.fromkeys(indexes, response)
        if kind is ErrorKind.BATCH_UNSUPPORTED:
            raise _BatchRefused(limit=1)
        if kind in (ErrorKind.BATCH_TOO_LARGE, ErrorKind.RANGE_TOO_LARGE):
            raise _BatchRefused
        if kind is ErrorKind.METHOD_MISSING:
            raise _BatchRefused(is_size_related=False)
        raise self._transient(reply, error, kind)

    def _failed(
        self, pending: _PendingCalls, index: int, reply: HttpReply, error: ErrorObject, *, alone: bool
    ) -> RetriableError | None:
        """Store the outcome of a refused call, or return the error if it stays pending. Raises _BatchRefused."""
        kind, method = self._kind_of(reply, error), pending.calls[index][0]
        if kind in _BATCH or (kind is ErrorKind.RANGE_TOO_LARGE and method != "eth_getLogs"):
            if not alone:
                raise _BatchRefused(limit=1 if kind is ErrorKind.BATCH_UNSUPPORTED else None)
            kind = ErrorKind.RANGE_TOO_LARGE
        if kind is ErrorKind.UNKNOWN:
            pending.refused[index] += 1
        open_ = kind is ErrorKind.UNKNOWN and pending.refused[index] < MAX_UNKNOWN_ERRORS
        if open_ or kind not in _FINAL_KINDS:
            return self._transient(reply, error, kind)
        pending.outcomes[index] = _final_error(kind, method, f"{self._message_of(error)} ({error.code})")
        return None

    def _kind_of(self, reply: HttpReply, error: ErrorObject) -> ErrorKind:
        more = error.data if isinstance(error.data, str) else ""
        return classify_error(reply.status, error.code, f"{error.message} {more}".strip())

    def _message_of(self, error: ErrorObject) -> str:
        return self._endpoint.redact_and_shorten(error.message)

    def _transient(self, reply: HttpReply, error: ErrorObject, kind: ErrorKind) -> RetriableError:
        said = f"it says {self._message_of(error)!r} ({error.code})"
        reason = f"it is busy: {said}" if kind is ErrorKind.RATE_LIMITED else said
        return RetriableError(reason, reply.retry_after_s, _ERRORS.get(kind, NodeUnavailable))


def _number(id_: int | str | None) -> int | str | None:
    """Return the id of a response as a number. Some nodes send a number back as a string."""
    return int(id_) if isinstance(id_, str) and id_.isdecimal() else id_


def _is_success(reply: HttpReply) -> bool:
    return httpx2.codes.is_success(reply.status)


def _final_error(kind: ErrorKind, method: str, said: str) -> NodeUnavailable:
    """Return the outcome of a call that is not sent again. `said` is the message of the node."""
    if kind is ErrorKind.RANGE_TOO_LARGE:
        return RangeTooLarge(f"The node refuses {method} because the request or its result is too large: {said}.")
    if kind is ErrorKind.METHOD_MISSING:
        return MethodMissing(f"The node does not support {method}: {said}.")
    if kind is ErrorKind.UNAUTHORIZED:
        return NodeUnavailable(f"The node refuses requests: {said}: check the URL and the key in it.")
    return RequestRefused(f"The node refuses {method}: {said}.")
