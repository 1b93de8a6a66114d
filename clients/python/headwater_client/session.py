"""Sends calls, retries them after some failures, and turns responses into values or errors."""

import platform
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import msgspec
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_before_delay,
    wait_random_exponential,
)

from headwater_client.call import Call, decode, query_pairs
from headwater_client.connection import Connection
from headwater_client.errors import (
    ConnectionFailed,
    DeployPending,
    HeadwaterError,
    RateLimited,
    RequestFailed,
    TimedOut,
    Unavailable,
    UnexpectedResponse,
    error_of,
)
from headwater_client.input_output import InputOutput

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 70.0
"""A deploy is answered within 60 s."""
CONNECT_TIMEOUT_S = 10.0
DEFAULT_RETRIES = 5
TAIL_SILENCE_S = 30.0
"""The server sends a comment every 10 s, so a connection that is silent for longer is broken."""
USER_AGENT = f"headwater-client Python/{platform.python_version()}"

_backoff = wait_random_exponential(multiplier=0.2, max=10)


class StreamBroken(ConnectionFailed):
    """A connection broke after the response had begun."""


def is_retriable(error: BaseException) -> bool:
    """Return whether the request may be sent again: after 429, 503 and a broken connection."""
    if isinstance(error, TimedOut):
        return False
    return isinstance(error, RateLimited | Unavailable | ConnectionFailed)


def _wait(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: `Retry-After`, or else a growing random time."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, RequestFailed) and error.retry_after is not None:
        return error.retry_after
    return _backoff(state)


class _Stop:
    """Stops retrying after some attempts.

    While a deploy is in progress, it stops after `deploy_wait_s` seconds instead, unless this is None.
    """

    def __init__(self, retries: int, deploy_wait_s: float | None) -> None:
        self._retries_left = retries
        self._is_wait_over = None if deploy_wait_s is None else stop_before_delay(deploy_wait_s)

    def __call__(self, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if self._is_wait_over and isinstance(error, DeployPending):
            return self._is_wait_over(state)
        self._retries_left -= 1
        return self._retries_left < 0


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How long and how often the client tries a request.

    Attributes:
        timeout_s: The seconds to wait for a response, unless a call has its own timeout.
        retries: How often a request is sent again after 429, 503 and broken connections.
    """

    timeout_s: float = DEFAULT_TIMEOUT_S
    retries: int = DEFAULT_RETRIES


@dataclass(frozen=True, slots=True)
class RawResponse:
    """The body of a response, which is not decoded, with the headers."""

    body: bytes
    headers: Mapping[str, str]


class Session:
    """A connection to a server, which all objects of a client share."""

    def __init__(self, connection: Connection, io: InputOutput, policy: RequestPolicy) -> None:
        self.connection = connection
        self.io = io
        self._policy = policy

    async def send(self, call: Call[T], deploy_wait_s: float | None = None) -> T:
        """Send a call, and return the typed body of the response. Raises HeadwaterError.

        Args:
            call: What to send.
            deploy_wait_s: The seconds to wait for a deploy in progress; None if the number of attempts limits the wait.
        """
        return typed((await self.send_raw(call, deploy_wait_s)).body, call)

    async def send_raw(self, call: Call[Any], deploy_wait_s: float | None = None) -> RawResponse:
        """Send a call, and return the body and the headers of the response."""
        response = await self._send(call, deploy_wait_s, stream=False)
        return RawResponse(response.content, response.headers)

    async def events(
        self, call: Call[Any], on_open: Callable[[], None] | None = None
    ) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        """Yield the server-sent events of a response.

        Raises StreamBroken when an open connection breaks.
        """
        response = await self._send(call, None, stream=True)
        if on_open:
            on_open()
        events = self.io.events(response)
        try:
            async for event in events:
                yield event
        except httpx2.RequestError as error:
            raise StreamBroken(str(error)) from error
        finally:
            await events.aclose()

    async def _send(self, call: Call[Any], deploy_wait_s: float | None, *, stream: bool) -> httpx2.Response:
        retrying = AsyncRetrying(
            sleep=self.io.sleep,
            retry=retry_if_exception(is_retriable),
            wait=_wait,
            stop=_Stop(self._policy.retries if call.retriable else 0, deploy_wait_s),
            reraise=True,
        )
        response: httpx2.Response = await retrying(self._attempt, call, uuid.uuid4().hex, stream)
        return response

    async def _attempt(self, call: Call[Any], key: str, stream: bool) -> httpx2.Response:
        try:
            response = await self.io.send(self._request(call, key, stream=stream), stream=stream)
            if response.is_success:
                return response
            body = await self.io.read(response)
        except httpx2.RequestError as error:
            raise _connection_error(error, self.connection) from error
        raise error_of(response.status_code, response.headers, body)

    def _request(self, call: Call[Any], key: str, *, stream: bool) -> httpx2.Request:
        headers = {"X-API-Key": self.connection.key, "User-Agent": USER_AGENT, **call.headers}
        content: Any = None
        if call.has_body:
            headers["Content-Type"] = "application/json"
            content = self.io.body(call.content()) if call.content else msgspec.json.encode(call.body)
        if call.method in {"POST", "PUT", "PATCH"}:
            headers["Idempotency-Key"] = key
        seconds = call.timeout or self._policy.timeout_s
        read_s = TAIL_SILENCE_S if stream else seconds
        timeout = httpx2.Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT_S), read=read_s)
        return httpx2.Request(
            call.method,
            self.connection.url + call.path,
            params=tuple(query_pairs(call.query)) or None,
            headers=headers,
            content=content,
            extensions={"timeout": timeout.as_dict()},
        )


def typed(body: bytes, call: Call[T]) -> T:
    """Return the typed body of a response. Raises UnexpectedResponse."""
    try:
        return decode(body, call.result)
    except msgspec.DecodeError as error:
        raise UnexpectedResponse(
            f"The response to {call.method} {call.path} does not have the documented form: {error}."
        ) from error


def _connection_error(error: httpx2.RequestError, connection: Connection) -> HeadwaterError:
    if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout | httpx2.PoolTimeout):
        return TimedOut(f"{connection.url} did not respond in time.")
    reason = str(error) or type(error).__name__
    return ConnectionFailed(f"The connection to {connection.url} failed: {reason}.")
