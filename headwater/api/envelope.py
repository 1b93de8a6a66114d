"""Middleware: an id for each request, its metrics, and an answer when something unexpected is raised."""

import time
from collections.abc import MutableMapping
from typing import Any

import structlog
from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.limits import EXTRA_HEADERS
from headwater.api.metrics import Metrics
from headwater.api.problems import internal_error
from headwater.services.ids import NewId

COLLECTIONS = frozenset({"/api/v1/flow/", "/api/v1/flow/datasets/", "/api/v1/flow/streams/"})

log = structlog.get_logger(__name__)


class Envelope:
    """The outermost layer: an id for each request, and its metrics."""

    def __init__(self, app: ASGIApp, metrics: Metrics, new_id: NewId) -> None:
        self._app = app
        self._metrics = metrics
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["request_id"] = self._new_id()
        method = scope["method"]
        # HEAD is answered as GET is; the server leaves the body out.
        answered = {**scope, "method": "GET"} if method == "HEAD" else scope
        answered["path"] = _without_slash(scope["path"])
        began = time.perf_counter()
        outgoing = _Outgoing(scope, send)
        try:
            await self._app(answered, receive, outgoing)
        finally:
            self._metrics.observe(method, _route(answered), outgoing.status, time.perf_counter() - began)


class InternalErrors:
    """Logs what the application raises, and sends a problem unless a response has begun."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_on(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception:
            log.exception("request failed", request_id=scope["request_id"], method=scope["method"], route=_route(scope))
            if has_begun:
                raise
            await internal_error().response(Request(scope))(scope, receive, send)


def _without_slash(path: str) -> str:
    """The path of a collection without the slash that many clients write behind it."""
    return path.removesuffix("/") if path in COLLECTIONS else path


class _Outgoing:
    """Puts the request's id on the response and notes its status; 0 before the response starts."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._scope["request_id"]
            headers.update(self._scope.get(EXTRA_HEADERS, {}))
        await self._send(message)


def _route(scope: MutableMapping[str, Any]) -> str:
    """The route's path with its parameters' names: never an id, so that there are few time series."""
    return getattr(scope.get("route"), "path", "none")
