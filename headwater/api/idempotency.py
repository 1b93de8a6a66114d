"""Returns the stored response to a repeated request with the same `Idempotency-Key`.

The request is executed once. This module wraps the routes, so no route needs to know of it. Only final responses are
stored: no 5xx, no 429, and no response that rejects the form of the request, because after these the same request may
succeed later.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import anyio
import msgspec
import structlog
from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from headwater.api.concurrency import incomplete_body
from headwater.api.problems import PROBLEM_TYPES, URN
from headwater.errors import (
    Conflict,
    Fault,
    InvalidInput,
    MalformedRequest,
    RateLimited,
    StoreUnavailable,
    TooLarge,
    UnsupportedMediaType,
)
from headwater.model.idempotency import CLAIM_TTL, KEY_PATTERN, MAX_KEY_CHARS, StoredResponse, idempotency_id
from headwater.services.idempotency import IdempotencyService

KEY_HEADER, REPLAYED_HEADER = "Idempotency-Key", "Idempotency-Replayed"
METHODS = frozenset({"POST", "PUT", "PATCH"})
STORED_HEADERS = ("content-type", "location", "etag")
NOT_STORED_TYPES = frozenset(
    URN + PROBLEM_TYPES[error].name
    for error in (MalformedRequest, TooLarge, UnsupportedMediaType, InvalidInput, RateLimited)
)
"""URNs of the problem types whose responses are not stored, in addition to all 5xx responses."""

RouteHandler = Callable[[Scope, Receive, Send], Awaitable[None]]

log = structlog.get_logger(__name__)


def key_of(headers: Headers) -> str | None:
    """Return the request's Idempotency-Key; None without the header. Raises InvalidInput."""
    sent = headers.getlist(KEY_HEADER)
    if not sent:
        return None
    if len(sent) > 1 or not re.fullmatch(KEY_PATTERN, sent[0]):
        text = f"must be one of 1 to {MAX_KEY_CHARS} visible ASCII characters, without spaces"
        raise InvalidInput("The request was refused.", [Fault(f"/{KEY_HEADER}", text)])
    return sent[0]


class IdempotentRequest:
    """One request with an Idempotency-Key.

    Attributes:
        takes_body: Whether the route reads a body. When it does not, the body is not part of the comparison.
        regenerated_from: The path whose GET returns the response again, for a success response that contains
            credentials and is therefore not stored; otherwise empty.
    """

    def __init__(
        self, store: IdempotencyService, scope: Scope, key: str, *, takes_body: bool, regenerated_from: str = ""
    ) -> None:
        self._store = store
        self._request = idempotency_id(scope["api_key"].owner, scope["method"], scope["path"], key)
        self._claimant: str = scope["request_id"]
        self._takes_body = takes_body
        self._regenerated_from = regenerated_from

    async def __call__(self, handler: RouteHandler, scope: Scope, receive: Receive, send: Send) -> None:
        """Execute the request, or return its stored response.

        Raises Conflict while the first request is in progress, and InvalidInput when the body differs from that of the
        first request.
        """
        found = await to_thread.run_sync(self._store.claim, self._request, self._claimant)
        if found == "running":
            raise Conflict(
                "A request with this Idempotency-Key is in progress. Send this one again when the other has ended."
            )
        body = _HashingReceive(receive, ended=not self._takes_body)
        if isinstance(found, StoredResponse):
            await self._replay(found, body, scope, send)
        else:
            await self._execute(handler, scope, body, send)

    async def _execute(self, handler: RouteHandler, scope: Scope, body: "_HashingReceive", send: Send) -> None:
        response = _BufferedResponse()
        try:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self._renew)
                await handler(scope, body, response)
                task_group.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._store_or_release, body, response)
        for message in response.messages:
            await send(message)

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(CLAIM_TTL.total_seconds() / 3)
            await to_thread.run_sync(self._ignoring_outage, lambda: self._store.renew(self._request, self._claimant))

    def _store_or_release(self, body: "_HashingReceive", response: "_BufferedResponse") -> None:
        if not (body.ended and response.is_final):
            self._ignoring_outage(lambda: self._store.release(self._request, self._claimant))
            return
        stored_body = b"" if self._is_regenerated(response.status) else response.body
        stored = StoredResponse(body.sha256, response.status, response.stored_headers, stored_body)
        self._ignoring_outage(lambda: self._store.finish(self._request, self._claimant, stored))

    def _is_regenerated(self, status: int) -> bool:
        return bool(self._regenerated_from) and status == HTTPStatus.OK

    def _ignoring_outage(self, write: Callable[[], None]) -> None:
        """Run a write and ignore an unavailable store.

        The request has been executed, so its response must be sent even when it can't be stored.
        """
        try:
            write()
        except StoreUnavailable as error:
            log.warning(
                "the state of an idempotent request can't be stored", request=self._request, reason=error.detail
            )

    async def _replay(self, found: StoredResponse, body: "_HashingReceive", scope: Scope, send: Send) -> None:
        await body.drain()
        if body.sha256 != found.body_sha256:
            text = "was used with another body; choose a new key for a new request"
            raise InvalidInput("Nothing was changed.", [Fault(f"/{KEY_HEADER}", text)])
        replayed = _ReplayedResponse(send)
        if self._is_regenerated(found.status):
            path = self._regenerated_from
            get = {**_without_route(scope), "method": "GET", "path": path, "raw_path": path.encode()}
            await scope["app"].router(get, _receive_empty_body, replayed)
            return
        headers = [(name.encode(), value.encode("latin-1")) for name, value in found.headers.items()]
        headers.append((b"content-length", str(len(found.body)).encode()))
        await replayed({"type": "http.response.start", "status": found.status, "headers": headers})
        await replayed({"type": "http.response.body", "body": found.body})


def _without_route(scope: Scope) -> dict[str, Any]:
    """Return the scope without the entries of the router, which would mislead a second routing."""
    return {name: value for name, value in scope.items() if name not in ("route", "endpoint", "path_params")}


async def _receive_empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class _HashingReceive:
    """Wraps `receive` and hashes the request body.

    `ended` is true once the whole body has arrived.
    """

    def __init__(self, receive: Receive, *, ended: bool) -> None:
        self._receive = receive
        self._sha256 = hashlib.sha256()
        self.ended = ended

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and not self.ended:
            self._sha256.update(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read the rest of the body.

        Raises MalformedRequest when the client disconnects before its end.
        """
        while not self.ended:
            if (await self())["type"] == "http.disconnect":
                raise incomplete_body()


class _ProblemDocument(msgspec.Struct):
    type: str


class _BufferedResponse:
    """Buffers the response until it is stored. `status` is 0 while there is no response."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"]) if self.messages else 0

    @property
    def is_final(self) -> bool:
        """Whether the response is stored, so that a repeat of the request gets it."""
        return 0 < self.status < HTTPStatus.INTERNAL_SERVER_ERROR and self._problem_type not in NOT_STORED_TYPES

    @property
    def _problem_type(self) -> str:
        """The `type` of the problem document in the body; empty for a success."""
        if self.status < HTTPStatus.BAD_REQUEST:
            return ""
        return msgspec.json.decode(self.body, type=_ProblemDocument).type

    @property
    def stored_headers(self) -> dict[str, str]:
        headers = Headers(raw=self.messages[0]["headers"])
        return {name: headers[name] for name in STORED_HEADERS if name in headers}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


class _ReplayedResponse:
    """Wraps `send` and adds the header Idempotency-Replayed to a stored response."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)[REPLAYED_HEADER] = "true"
        await self._send(message)
