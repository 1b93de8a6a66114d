"""A JSON-RPC client of one EVM node, which adapts its batch size and classifies errors."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx2
import msgspec

from headwater.errors import (
    NodeBehind,
    NodeCallFailed,
    NodeCallTooLarge,
    NodeError,
    NodeMethodMissing,
    NodeRateLimited,
    NodeUnavailable,
)
from headwater.ingest.cancellation import CancelToken
from headwater.ingest.evm.adaptive import AdaptiveSize
from headwater.ingest.evm.error_kinds import ErrorKind, classify_error
from headwater.ingest.jsonrpc import (
    MAX_ATTEMPTS,
    TIMEOUT,
    Endpoint,
    ErrorObject,
    HttpResponse,
    Response,
    RetriableError,
)

Call = tuple[str, Sequence[Any]]
"""A method and its parameters."""
Outcome = msgspec.Raw | NodeError
"""The result of a call, or its error."""

CALLS_AT_ONCE: Final = 20
"""The maximum number of calls in one HTTP request."""
BATCH_WINDOW_S: Final = 0.25
"""With a rate limit, a batch has at most as many calls as the limit allows in this time, so that no call waits long."""
MAX_UNKNOWN_ERRORS: Final = 2
"""The number of unknown errors after which a call is not sent again."""

SERVER_ERROR: Final = 500
_FINAL_KINDS: Final = frozenset({ErrorKind.CALL_TOO_LARGE, ErrorKind.METHOD_MISSING, ErrorKind.UNAUTHORIZED})
"""The kinds of errors after which a call is not sent again."""
_ERRORS: Final = {ErrorKind.RATE_LIMITED: NodeRateLimited, ErrorKind.BEHIND: NodeBehind}
_BATCH_KINDS: Final = frozenset({ErrorKind.BATCH_TOO_LARGE, ErrorKind.BATCH_UNSUPPORTED})


class _BatchRejected(Exception):
    """A node refuses a whole batch.

    Attributes:
        limit: The maximum number of calls that the node accepts, if known.
        is_size_related: Whether the size of the batch is the cause.
    """

    def __init__(self, limit: int | None = None, *, is_size_related: bool = True) -> None:
        super().__init__()
        self.limit = limit
        self.is_size_related = is_size_related


class _PendingCalls:
    """The calls of one invocation of `RpcClient.outcomes`, with their states.

    Attributes:
        calls: The calls.
        outcomes: The outcome of each call that will not be sent again, by the index of the call.
        unknown_errors: The number of errors of an unknown kind, by the index of the call.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.outcomes: dict[int, Outcome] = {}
        self.unknown_errors: Counter[int] = Counter()

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
        attempts: The maximum number of times that a failing request is sent; smaller when there are other nodes.
        clock: Returns monotonic seconds.
        sleep: Waits for some seconds. The default ends early when the client is closed.
        timeout: The timeouts of one request.
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
        max_size = max(1, min(CALLS_AT_ONCE, int(rate * BATCH_WINDOW_S))) if rate else CALLS_AT_ONCE
        self._batch_size = AdaptiveSize(max_size, max_size)

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
        """The number of requests that were sent again."""
        return self._endpoint.retries

    def wait(self, seconds: float) -> None:
        """Wait for this many seconds, or until the client is closed."""
        self._cancel_token.wait(seconds)

    def close(self) -> None:
        """Close the connections, and cancel the waits of other threads, whose calls then fail."""
        self._cancel_token.set()
        self._endpoint.close()

    def call(self, method: str, *params: Any, attempts: int | None = None) -> msgspec.Raw:
        """Return the result of one call. Raises NodeError."""
        return self.batch([(method, params)], attempts)[0]

    def batch(self, calls: Sequence[Call], attempts: int | None = None) -> list[msgspec.Raw]:
        """Return the results of calls, in their order. Raises NodeError when a call fails."""
        results: list[msgspec.Raw] = []
        for outcome in self.outcomes(calls, attempts):
            if isinstance(outcome, NodeError):
                raise outcome
            results.append(outcome)
        return results

    def outcomes(self, calls: Sequence[Call], attempts: int | None = None) -> list[Outcome]:
        """Return the outcomes of calls, in their order.

        When the node stays unavailable, the error is the outcome of every call that has none yet.
        """
        pending = _PendingCalls(calls)
        while indexes := pending.pending_indexes():
            try:
                self._endpoint.call_with_retries(lambda: self._send_pending(pending), attempts=attempts)
            except NodeError as error:
                has_progress = len(pending.pending_indexes()) < len(indexes)
                if has_progress and not error.retry_after_s:
                    continue  # the node works, so the other calls are sent with new attempts
                pending.outcomes |= dict.fromkeys(pending.pending_indexes(), error)
        return [pending.outcomes[index] for index in range(len(calls))]

    def _send_pending(self, pending: _PendingCalls) -> None:
        """Send each pending call once. Raises RetriableError when calls stay pending."""
        unsent, failures, max_size = pending.pending_indexes(), list[RetriableError](), CALLS_AT_ONCE
        while unsent:
            size = min(max_size, self._batch_size.value)
            indexes, unsent = unsent[:size], unsent[size:]
            try:
                call_failures = self._send(pending, indexes)
                failures += call_failures
                if len(call_failures) < len(indexes):
                    self._batch_size.on_success(len(indexes))
                else:
                    self._suspect_size(indexes, call_failures[0])
            except _BatchRejected as error:
                if error.is_size_related:
                    self._batch_size.on_refusal(len(indexes), error.limit)
                else:
                    max_size = 1
                unsent = [index for index in indexes if index not in pending.outcomes] + unsent
            except RetriableError as failure:
                self._suspect_size(indexes, failure)
                failures.append(failure)
                break
        if failures:
            raise max(failures, key=lambda failure: failure.retry_after_s)

    def _suspect_size(self, indexes: Sequence[int], failure: RetriableError) -> None:
        """Reduce the batch size after a request without results, unless the node is busy or lags."""
        if len(indexes) > 1 and failure.final_error is NodeUnavailable:
            self._batch_size.on_suspicion(len(indexes))

    def _send(self, pending: _PendingCalls, indexes: Sequence[int]) -> list[RetriableError]:
        """Send these calls in one request.

        Returns the failures of single calls that stay pending. Raises _BatchRejected, and RetriableError when the whole
        request failed.
        """
        http_response = self._endpoint.post(pending.body(indexes), len(indexes))
        by_index = self._responses(http_response, indexes)
        failures: list[RetriableError] = []
        for index in indexes:
            response = by_index.get(index)
            if response is None:
                failures.append(RetriableError("the node omitted a response"))
            elif response.error is None:
                pending.outcomes[index] = response.result
            elif failure := self._handle_error(pending, index, http_response, response.error, alone=len(indexes) == 1):
                failures.append(failure)
        return failures

    def _responses(self, http_response: HttpResponse, indexes: Sequence[int]) -> dict[Any, Response]:
        """Return the responses by the index of their call.

        Raises RetriableError, NodeError, _BatchRejected.
        """
        body = http_response.body
        if isinstance(body, list):
            by_index = {_normalised_id(response.id): response for response in body}
            without_id = by_index.get(None)
            if without_id is None or len(by_index) > 1:
                return by_index
            # A node that refuses a whole batch sends one response, without an id.
            return self._for_all(http_response, indexes, without_id)
        if body is not None and (body.error is not None or (len(indexes) == 1 and _is_success(http_response))):
            return self._for_all(http_response, indexes, body)
        if body is not None or _is_success(http_response):
            raise RetriableError("the response is not JSON-RPC")
        kind = classify_error(http_response.status, 0, "")
        if kind is ErrorKind.CALL_TOO_LARGE:
            return self._for_all(http_response, indexes, Response(error=ErrorObject(0, f"HTTP {http_response.status}")))
        if kind is ErrorKind.UNAUTHORIZED or (kind is ErrorKind.UNKNOWN and http_response.status < SERVER_ERROR):
            raise NodeUnavailable(
                f"The node refuses requests (HTTP {http_response.status}): check the URL and the key in it."
            )
        raise RetriableError(
            f"HTTP {http_response.status}", http_response.retry_after_s, _ERRORS.get(kind, NodeUnavailable)
        )

    def _for_all(self, http_response: HttpResponse, indexes: Sequence[int], response: Response) -> dict[Any, Response]:
        """Return the single response to a request as the response to each of the calls.

        Raises _BatchRejected, RetriableError.
        """
        if len(indexes) == 1:
            return {indexes[0]: response}
        error = response.error or ErrorObject()
        kind = self._kind_of(http_response, error)
        if kind is ErrorKind.UNAUTHORIZED:
            return dict.fromkeys(indexes, response)
        if kind is ErrorKind.BATCH_UNSUPPORTED:
            raise _BatchRejected(limit=1)
        if kind in (ErrorKind.BATCH_TOO_LARGE, ErrorKind.CALL_TOO_LARGE):
            raise _BatchRejected
        if kind is ErrorKind.METHOD_MISSING:
            raise _BatchRejected(is_size_related=False)
        raise self._transient(http_response, error, kind)

    def _handle_error(
        self, pending: _PendingCalls, index: int, http_response: HttpResponse, error: ErrorObject, *, alone: bool
    ) -> RetriableError | None:
        """Store the final error of a call, or return the error of a call that stays pending.

        Raises _BatchRejected.
        """
        method = pending.calls[index][0]
        kind = self._kind_of_call_error(http_response, error, method, alone=alone)
        is_final = kind in _FINAL_KINDS
        if kind is ErrorKind.UNKNOWN:
            pending.unknown_errors[index] += 1
            is_final = pending.unknown_errors[index] >= MAX_UNKNOWN_ERRORS
        if not is_final:
            return self._transient(http_response, error, kind)
        pending.outcomes[index] = _final_error(kind, method, f"{self._message_of(error)} ({error.code})")
        return None

    def _kind_of_call_error(
        self, http_response: HttpResponse, error: ErrorObject, method: str, *, alone: bool
    ) -> ErrorKind:
        """Return the kind of the error of one call.

        `alone` says whether the request had only this call. Raises _BatchRejected when the error is about the batch. In
        a request of one call, such an error means that the result of the call is too large.
        """
        kind = self._kind_of(http_response, error)
        # Only eth_getLogs reads a range. For another method, "too large" means the response to the whole batch.
        is_about_batch = kind in _BATCH_KINDS or (kind is ErrorKind.CALL_TOO_LARGE and method != "eth_getLogs")
        if not is_about_batch:
            return kind
        if not alone:
            raise _BatchRejected(limit=1 if kind is ErrorKind.BATCH_UNSUPPORTED else None)
        return ErrorKind.CALL_TOO_LARGE

    def _kind_of(self, http_response: HttpResponse, error: ErrorObject) -> ErrorKind:
        details = error.data if isinstance(error.data, str) else ""
        return classify_error(http_response.status, error.code, f"{error.message} {details}".strip())

    def _message_of(self, error: ErrorObject) -> str:
        return self._endpoint.redact_and_shorten(error.message)

    def _transient(self, http_response: HttpResponse, error: ErrorObject, kind: ErrorKind) -> RetriableError:
        reason = f"the node says {self._message_of(error)!r} ({error.code})"
        if kind is ErrorKind.RATE_LIMITED:
            reason = f"too many requests: {reason}"
        return RetriableError(reason, http_response.retry_after_s, _ERRORS.get(kind, NodeUnavailable))


def _normalised_id(id_: int | str | None) -> int | str | None:
    """Return the id of a response as a number. Some nodes send a number back as a string."""
    return int(id_) if isinstance(id_, str) and id_.isdecimal() else id_


def _is_success(http_response: HttpResponse) -> bool:
    return httpx2.codes.is_success(http_response.status)


def _final_error(kind: ErrorKind, method: str, message: str) -> NodeError:
    """Return the outcome of a call that is not sent again.

    `message` is the message of the node.
    """
    if kind is ErrorKind.CALL_TOO_LARGE:
        return NodeCallTooLarge(f"The node refuses {method} because the request or its result is too large: {message}.")
    if kind is ErrorKind.METHOD_MISSING:
        return NodeMethodMissing(f"The node does not support {method}: {message}.")
    if kind is ErrorKind.UNAUTHORIZED:
        return NodeUnavailable(f"The node refuses requests: {message}: check the URL and the key in it.")
    return NodeCallFailed(f"The node refuses {method}: {message}.")
