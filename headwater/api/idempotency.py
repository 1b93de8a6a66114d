"""Returns the stored response for a repeated request with the same `Idempotency-Key`.

A POST, PUT or PATCH with such a key is executed once. Only final responses are stored: no 5xx, no 429, and no response
that rejects the form of the request, because after these the same request may succeed later. A response with
credentials is not stored either: a repeat gets it from the route that reads the deployment.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from http import HTTPStatus

import anyio
import msgspec
import structlog
from anyio import to_thread
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.guarded_routes import RouteRule
from headwater.api.problems import PROBLEM_TYPES, URN
from headwater.api.route_table import RULE
from headwater.api.schemas import DeploymentBody
from headwater.api.uploads import incomplete_body
from headwater.errors import (
    Conflict,
    DatabaseUnavailable,
    Fault,
    InvalidInput,
    MalformedRequest,
    RateLimited,
    TooLarge,
    UnsupportedMediaType,
)
from headwater.model.idempotency import CLAIM_TTL, KEY_PATTERN, MAX_KEY_CHARS, StoredResponse, idempotency_id
from headwater.services.idempotency import IdempotencyService

IDEMPOTENCY_KEY_HEADER, REPLAYED_HEADER = "Idempotency-Key", "Idempotency-Replayed"
METHODS = frozenset({"POST", "PUT", "PATCH"})
STORED_HEADERS = ("content-type", "location", "etag")
NOT_STORED_TYPES = frozenset(
    URN + PROBLEM_TYPES[error].name
    for error in (MalformedRequest, TooLarge, UnsupportedMediaType, InvalidInput, RateLimited)
)
"""URNs of the problem types whose responses are not stored, in addition to all 5xx responses."""

log = structlog.get_logger(__name__)


def parse_idempotency_key(headers: Headers) -> str | None:
    """Return the request's Idempotency-Key; None without the header. Raises InvalidInput."""
    sent = headers.getlist(IDEMPOTENCY_KEY_HEADER)
    if not sent:
        return None
    if len(sent) > 1 or not re.fullmatch(KEY_PATTERN, sent[0]):
        text = f"must be one of 1 to {MAX_KEY_CHARS} visible ASCII characters, without spaces"
        raise InvalidInput("The request was refused.", [Fault(f"/{IDEMPOTENCY_KEY_HEADER}", text)])
    return sent[0]


class Idempotency:
    """Executes a request with an Idempotency-Key once, and answers repeats from the store.

    Sends 422 for an invalid key and for a repeat with another body, 409 while the first request is in progress, 400 for
    the incomplete body of a repeat, and 503 when the database is unavailable.
    """

    def __init__(self, app: ASGIApp, store: IdempotencyService, routes: Iterable[APIRoute]) -> None:
        self._app = app
        self._store = store
        with_credentials = (route for route in routes if route.response_model is DeploymentBody)
        self._read_deployment = next(route for route in with_credentials if "GET" in (route.methods or ()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rule: RouteRule | None = scope.get(RULE)
        key = parse_idempotency_key(Headers(scope=scope)) if rule is not None and scope["method"] in METHODS else None
        if rule is None or key is None:
            await self._app(scope, receive, send)
            return
        has_credentials = scope["route"].response_model is DeploymentBody
        request = IdempotentRequest(
            self._app,
            self._store,
            request=idempotency_id(scope["api_key"].owner, scope["method"], scope["path"], key),
            claimant=scope["request_id"],
            regenerated_by=self._read_deployment if has_credentials else None,
        )
        await request(scope, _HashingReceive(receive, ended=not rule.takes_body), send)


class IdempotentRequest:
    """One request with an Idempotency-Key.

    request: The id of the request; a repeat has the same one.
    claimant: The id of the HTTP request.
    regenerated_by: The route that returns a success response again which contains credentials and is therefore not
        stored; None when the response is stored.
    """

    def __init__(
        self,
        app: ASGIApp,
        store: IdempotencyService,
        *,
        request: str,
        claimant: str,
        regenerated_by: APIRoute | None,
    ) -> None:
        self._app = app
        self._store = store
        self._request = request
        self._claimant = claimant
        self._regenerated_by = regenerated_by

    async def __call__(self, scope: Scope, receive: "_HashingReceive", send: Send) -> None:
        """Execute the request, or send its stored response.

        Raises Conflict while the first request is in progress, and InvalidInput when the body differs from that of the
        first request.
        """
        found = await to_thread.run_sync(self._store.claim, self._request, self._claimant)
        if found == "running":
            raise Conflict(
                "A request with this Idempotency-Key is in progress. Send this one again when the other has ended."
            )
        if isinstance(found, StoredResponse):
            await self._replay(found, scope, receive, send)
        else:
            await self._execute(scope, receive, send)

    async def _execute(self, scope: Scope, receive: "_HashingReceive", send: Send) -> None:
        response = _BufferedResponse()
        try:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self._renew)
                await self._app(scope, receive, response)
                task_group.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._store_or_release, receive, response)
        for message in response.messages:
            await send(message)

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(CLAIM_TTL.total_seconds() / 3)
            await to_thread.run_sync(self._ignoring_outage, lambda: self._store.renew(self._request, self._claimant))

    def _store_or_release(self, receive: "_HashingReceive", response: "_BufferedResponse") -> None:
        if not (receive.ended and response.is_final):
            self._ignoring_outage(lambda: self._store.release(self._request, self._claimant))
            return
        body = b"" if self._regenerating_route(response.status) else response.body
        stored = StoredResponse(receive.sha256, response.status, response.stored_headers, body)
        self._ignoring_outage(lambda: self._store.finish(self._request, self._claimant, stored))

    def _regenerating_route(self, status: int) -> APIRoute | None:
        """Return the route that produces a response of this status for a repeat.

        Returns None when the response itself is stored.
        """
        return self._regenerated_by if status == HTTPStatus.OK else None

    def _ignoring_outage(self, write: Callable[[], None]) -> None:
        """Run a write and ignore an unavailable store.

        The request has been executed, so its response must be sent even when it can't be stored.
        """
        try:
            write()
        except DatabaseUnavailable as error:
            log.warning(
                "the state of an idempotent request can't be stored", request=self._request, reason=error.detail
            )

    async def _replay(self, found: StoredResponse, scope: Scope, receive: "_HashingReceive", send: Send) -> None:
        await receive.drain()
        if receive.sha256 != found.body_sha256:
            text = "was used with another body; choose a new key for a new request"
            raise InvalidInput("Nothing was changed.", [Fault(f"/{IDEMPOTENCY_KEY_HEADER}", text)])
        replayed = _ReplayedResponse(send)
        if route := self._regenerating_route(found.status):
            await self._app(_scope_of_get(route, scope), _receive_empty_body, replayed)
            return
        headers = [(name.encode(), value.encode("latin-1")) for name, value in found.headers.items()]
        headers.append((b"content-length", str(len(found.body)).encode()))
        await replayed({"type": "http.response.start", "status": found.status, "headers": headers})
        await replayed({"type": "http.response.body", "body": found.body})


def _scope_of_get(route: APIRoute, scope: Scope) -> Scope:
    """Return the scope of a GET request to another route with the same path parameters."""
    path = route.path_format.format(**scope["path_params"])
    return {**scope, "method": "GET", "route": route, "path": path, "raw_path": path.encode()}


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
