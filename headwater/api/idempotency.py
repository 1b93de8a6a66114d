"""Sends the stored response to a repeat of a request with the same `Idempotency-Key`.

A POST, PUT or PATCH with such a key is executed once. Only final responses are stored: not 5xx, not 429, and not the
response to an invalid request, because the same request may succeed later. A response with credentials is not stored
either: a repeat gets the present body of GET …/deploy. The members that only the first response had, such as the
`gaps` of a resume, are stored and added to this body.

A response with a DeploymentBody never has an ETag. So a response with status 200 and without an ETag counts as one with
credentials, if the response model of its route contains DeploymentBody. Such a route must therefore set an ETag on
every other response with status 200.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import get_args

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

IDEMPOTENCY_KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
METHODS = frozenset({"POST", "PUT", "PATCH"})
STORED_HEADERS = ("content-type", "location", "etag")
NOT_STORED_TYPES = frozenset(
    URN + PROBLEM_TYPES[error].name
    for error in (MalformedRequest, TooLarge, UnsupportedMediaType, InvalidInput, RateLimited)
)
"""URNs of the problem types whose responses are not stored, in addition to all 5xx responses."""
_DEPLOYMENT_MEMBERS = frozenset(DeploymentBody.model_fields)

log = structlog.get_logger(__name__)


def parse_idempotency_key(headers: Headers) -> str | None:
    """Return the request's Idempotency-Key; None without the header. Raises InvalidInput."""
    keys = headers.getlist(IDEMPOTENCY_KEY_HEADER)
    if not keys:
        return None
    if len(keys) > 1 or not re.fullmatch(KEY_PATTERN, keys[0]):
        text = f"must be sent once, with 1 to {MAX_KEY_CHARS} visible ASCII characters and without spaces"
        raise InvalidInput("The request was refused.", [Fault(f"/{IDEMPOTENCY_KEY_HEADER}", text)])
    return keys[0]


class Idempotency:
    """Executes a request with an Idempotency-Key once.

    Repeats of the request get the stored response. The middleware sends 422 for an invalid key and for a repeat with
    another body. It sends 409 while the first request is in progress, 400 for the incomplete body of a repeat, and 503
    when the database is unavailable.
    """

    def __init__(self, app: ASGIApp, service: IdempotencyService, routes: Iterable[APIRoute]) -> None:
        self._app = app
        self._service = service
        with_credentials = filter(may_return_credentials, routes)
        self._deployment_route = next(route for route in with_credentials if "GET" in (route.methods or ()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rule: RouteRule | None = scope.get(RULE)
        if rule is None or not rule.needs_key or scope["method"] not in METHODS:
            await self._app(scope, receive, send)
            return
        key = parse_idempotency_key(Headers(scope=scope))
        if key is None:
            await self._app(scope, receive, send)
            return
        request = IdempotentRequest(
            self._app,
            self._service,
            idempotency_id=idempotency_id(scope["api_key"].owner, scope["method"], scope["path"], key),
            request_id=scope["request_id"],
            read_route=self._deployment_route if may_return_credentials(scope["route"]) else None,
        )
        await request(scope, _HashingReceive(receive, has_ended=not rule.takes_body), send)


def may_return_credentials(route: APIRoute) -> bool:
    """Whether success responses of a route may have credentials."""
    models = get_args(route.response_model) or (route.response_model,)
    return any(isinstance(model, type) and issubclass(model, DeploymentBody) for model in models)


class IdempotentRequest:
    """One request with an Idempotency-Key.

    Args:
        idempotency_id: The id that a request and its repeats have in common.
        request_id: The id of this HTTP request.
        read_route: The GET route whose response a repeat gets instead of a success response with credentials, which is
            not stored. It is None when no response has credentials.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: IdempotencyService,
        *,
        idempotency_id: str,
        request_id: str,
        read_route: APIRoute | None,
    ) -> None:
        self._app = app
        self._service = service
        self._idempotency_id = idempotency_id
        self._request_id = request_id
        self._read_route = read_route

    async def __call__(self, scope: Scope, receive: "_HashingReceive", send: Send) -> None:
        """Execute the request, or send its stored response.

        Raises Conflict while the first request is in progress, and InvalidInput when the first request had another
        body.
        """
        claim = await to_thread.run_sync(self._service.claim, self._idempotency_id, self._request_id)
        if claim == "running":
            raise Conflict(
                "A request with this Idempotency-Key is in progress. Send this one again when the other has ended."
            )
        if isinstance(claim, StoredResponse):
            await self._replay(claim, scope, receive, send)
        else:
            await self._execute(scope, receive, send)

    async def _execute(self, scope: Scope, receive: "_HashingReceive", send: Send) -> None:
        response = _BufferedResponse()
        try:
            await self._run(scope, receive, response)
        except asyncio.CancelledError:
            raise  # The process stops. A thread of the request may still run, so the claim is kept until it expires.
        except BaseException:
            await self._end_claim(receive, response)
            raise
        await self._end_claim(receive, response)
        for message in response.messages:
            await send(message)

    async def _run(self, scope: Scope, receive: "_HashingReceive", response: "_BufferedResponse") -> None:
        """Run the application, and renew the claim meanwhile."""
        try:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self._renew)
                await self._app(scope, receive, response)
                task_group.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _end_claim(self, receive: "_HashingReceive", response: "_BufferedResponse") -> None:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._store_or_release, receive, response)

    async def _renew(self) -> None:
        """Renew the claim until the task is cancelled."""
        while True:
            await anyio.sleep(CLAIM_TTL.total_seconds() / 3)
            await to_thread.run_sync(self._call_service, self._service.renew)

    def _store_or_release(self, receive: "_HashingReceive", response: "_BufferedResponse") -> None:
        if not (receive.has_ended and response.is_final):
            self._call_service(self._service.release)
            return
        has_credentials = self._has_credentials(response.status, response.stored_headers)
        body = _members_missing_in_get(response.body) if has_credentials else response.body
        stored = StoredResponse(receive.sha256, response.status, response.stored_headers, body)
        self._call_service(self._service.finish, stored)

    def _has_credentials(self, status: int, stored_headers: Mapping[str, str]) -> bool:
        return self._read_route is not None and status == HTTPStatus.OK and "etag" not in stored_headers

    def _call_service(self, method: Callable[..., None], *arguments: StoredResponse) -> None:
        """Call a method of the service for this request, and ignore an unavailable database.

        An unavailable database must neither end a request that is running, nor prevent its response.
        """
        try:
            method(self._idempotency_id, self._request_id, *arguments)
        except DatabaseUnavailable as error:
            log.warning(
                "the state of an idempotent request can't be stored", request=self._idempotency_id, reason=error.detail
            )

    async def _replay(self, stored: StoredResponse, scope: Scope, receive: "_HashingReceive", send: Send) -> None:
        await receive.drain()
        if receive.sha256 != stored.body_sha256:
            text = "was used with another body; choose a new key for a new request"
            raise InvalidInput("Nothing was changed.", [Fault(f"/{IDEMPOTENCY_KEY_HEADER}", text)])
        replayed = _ReplayedResponse(send)
        if self._read_route is not None and self._has_credentials(stored.status, stored.headers):
            deployment = _BufferedResponse()
            await self._app(_asgi_scope_of_get(self._read_route, scope), _receive_empty_body, deployment)
            for message in deployment.with_members(stored.body):
                await replayed(message)
            return
        headers = [(name.encode(), value.encode("latin-1")) for name, value in stored.headers.items()]
        headers.append((b"content-length", str(len(stored.body)).encode()))
        await replayed({"type": "http.response.start", "status": stored.status, "headers": headers})
        await replayed({"type": "http.response.body", "body": stored.body})


def _members_missing_in_get(body: bytes) -> bytes:
    """Return the members that GET …/deploy does not return, such as `gaps` and `warnings`."""
    members: dict[str, msgspec.Raw] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({name: value for name, value in members.items() if name not in _DEPLOYMENT_MEMBERS})


def _asgi_scope_of_get(route: APIRoute, scope: Scope) -> Scope:
    """Return the ASGI scope of a GET request to another route with the same path parameters."""
    path = route.path_format.format(**scope["path_params"])
    return {**scope, "method": "GET", "route": route, "path": path, "raw_path": path.encode()}


async def _receive_empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class _HashingReceive:
    """Wraps `receive` and hashes the request body.

    Attributes:
        has_ended: Whether the whole body has arrived.
    """

    def __init__(self, receive: Receive, *, has_ended: bool) -> None:
        self._receive = receive
        self._sha256 = hashlib.sha256()
        self.has_ended = has_ended

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and not self.has_ended:
            self._sha256.update(message.get("body", b""))
            self.has_ended = not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read the remaining body.

        Raises MalformedRequest when the client disconnects before its end.
        """
        while not self.has_ended:
            if (await self())["type"] == "http.disconnect":
                raise incomplete_body()


class _ProblemDocument(msgspec.Struct):
    """The member of a problem document that decides whether the response is stored."""

    type: str


_decode_problem = msgspec.json.Decoder(_ProblemDocument).decode


class _BufferedResponse:
    """Buffers the response until it is stored."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        """The status of the response; 0 while there is no response."""
        return int(self.messages[0]["status"]) if self.messages else 0

    @property
    def is_final(self) -> bool:
        """Whether the response is stored for repeats of the request."""
        return 0 < self.status < HTTPStatus.INTERNAL_SERVER_ERROR and self._problem_type not in NOT_STORED_TYPES

    @property
    def _problem_type(self) -> str:
        """The `type` of the problem document in the body; empty for a success response."""
        if self.status < HTTPStatus.BAD_REQUEST:
            return ""
        return _decode_problem(self.body).type

    @property
    def stored_headers(self) -> dict[str, str]:
        headers = Headers(raw=self.messages[0]["headers"])
        return {name: headers[name] for name in STORED_HEADERS if name in headers}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    def with_members(self, stored_body: bytes) -> list[Message]:
        """Return the messages of this response; a success response gets the stored members too.

        A row that an older version stored has no members: its body is empty.
        """
        if self.status != HTTPStatus.OK or not stored_body:
            return self.messages
        merged = [msgspec.json.decode(body, type=dict[str, msgspec.Raw]) for body in (self.body, stored_body)]
        body = msgspec.json.encode(merged[0] | merged[1])
        start = {**self.messages[0], "headers": list(self.messages[0]["headers"])}
        MutableHeaders(scope=start)["content-length"] = str(len(body))
        return [start, {"type": "http.response.body", "body": body}]


class _ReplayedResponse:
    """Wraps `send` and adds the header Idempotency-Replayed to a stored response."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)[REPLAYED_HEADER] = "true"
        await self._send(message)
