"""The outer middlewares.

RequestMiddleware observes requests, and ProblemMiddleware converts exceptions to responses.
"""

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

import structlog
from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.problems import internal_error, interrupted, problem_response_of
from headwater.api.prometheus import PrometheusMetrics
from headwater.api.rate_limits import EXTRA_HEADERS
from headwater.errors import HeadwaterError
from headwater.services.ids import NewId

COLLECTION_PATHS = frozenset({"/api/v1/flow/", "/api/v1/flow/datasets/", "/api/v1/flow/streams/"})

IS_HEAD = "headwater.is_head"
"""Key of the ASGI scope that is true for a HEAD request, whose `method` the inner middlewares see as GET."""

log = structlog.get_logger(__name__)


class RequestMiddleware:
    """Gives each request an id, records its metrics and adds header fields to its response.

    The duration of a request ends with its response, and where the response is an event stream, with its headers: a
    stream lasts as long as the client wants.

    The middlewares inside see a HEAD request as a GET request; the HTTP server, which sees the original method, omits
    the body. They see the path of a collection without a trailing slash.
    """

    def __init__(self, app: ASGIApp, metrics: PrometheusMetrics, new_id: NewId) -> None:
        self._app = app
        self._metrics = metrics
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        inner_scope = {
            **scope,
            "request_id": self._new_id(),
            "method": "GET" if scope["method"] == "HEAD" else scope["method"],
            "path": _without_slash(scope["path"]),
            IS_HEAD: scope["method"] == "HEAD",
        }
        started_at = time.perf_counter()
        response = _ResponseHeaders(inner_scope, send)
        try:
            await self._app(inner_scope, receive, response)
        finally:
            seconds = (response.event_stream_at or time.perf_counter()) - started_at
            self._metrics.record_request(scope["method"], _route(inner_scope), response.status, seconds)


class ProblemMiddleware:
    """Sends a problem document for every exception that the middlewares inside it raise.

    A HeadwaterError has the status in PROBLEM_TYPES. Any other exception is logged and has the status 500. Once the
    response has started, no problem document can be sent, and the exception is raised again. FastAPI turns the errors
    of routes into problem documents (`problems.install`), so only unexpected exceptions of routes get here.

    uvicorn cancels the requests that have not ended some seconds after the process began to stop.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def tracked_send(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, tracked_send)
        except HeadwaterError as error:
            if has_started:
                raise
            await problem_response_of(error).response(Request(scope))(scope, receive, send)
        except asyncio.CancelledError:
            if has_started:
                raise
            await interrupted().response(Request(scope))(scope, receive, send)
        except Exception:
            log.exception("request failed", request_id=scope["request_id"], method=scope["method"], route=_route(scope))
            if has_started:
                raise
            await internal_error().response(Request(scope))(scope, receive, send)


def _without_slash(path: str) -> str:
    """Return the path of a collection without a trailing slash, which many clients add."""
    return path.removesuffix("/") if path in COLLECTION_PATHS else path


class _ResponseHeaders:
    """Wraps `send` to add header fields to the response and to record its status.

    Attributes:
        status: The status of the response; 0 until the response starts.
        event_stream_at: The value of time.perf_counter when an event stream started; 0 for any other response.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.status = 0
        self.event_stream_at = 0.0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._scope["request_id"]
            headers.update(self._scope.get(EXTRA_HEADERS, {}))
            if headers.get("Content-Type", "").startswith("text/event-stream"):
                self.event_stream_at = time.perf_counter()
        await self._send(message)


def _route(scope: MutableMapping[str, Any]) -> str:
    """Return the path template of the route, so that ids do not create new time series."""
    return getattr(scope.get("route"), "path", "none")
