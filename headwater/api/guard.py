"""Middlewares that check a request before its body is read.

api/app.py lists all middlewares in their order. FastAPI parses the body before it calls dependencies, so a check that
must refuse a request without reading its body is a middleware.
"""

from abc import ABC, abstractmethod

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.api.guarded_routes import RouteRule, require_prices_scope
from headwater.api.problems import NO_SUCH_PATH
from headwater.api.query_parameters import refuse_unknown_parameters
from headwater.api.route_table import RULE
from headwater.errors import Forbidden, NotFound, TooLarge, UnsupportedMediaType
from headwater.model.key import ApiKey
from headwater.services.deployments import Deployments
from headwater.services.flows import Flows


class Guard(ABC):
    """Base of the middlewares that check the requests to each GuardedRoute.

    Requests to other routes pass unchecked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rule: RouteRule | None = scope.get(RULE)
        if rule is not None:
            await self.check(rule, scope)
        await self._app(scope, receive, send)

    @abstractmethod
    async def check(self, rule: RouteRule, asgi_scope: Scope) -> None:
        """Check one request. Raises a HeadwaterError to refuse it."""


class RequiredScope(Guard):
    """Sends 403 when the API key lacks the scope of the route."""

    async def check(self, rule: RouteRule, asgi_scope: Scope) -> None:
        if rule.needs_key and rule.key_scope not in asgi_scope["api_key"].scopes:
            raise Forbidden(rule.key_scope)


class RequestHeadCheck(Guard):
    """Checks the path, the query string and the header fields of a request.

    Sends 404 for an id with a NUL character, 422 for an unknown query parameter, and 415 for a body that is not
    declared as plain JSON.
    """

    async def check(self, rule: RouteRule, asgi_scope: Scope) -> None:
        if any("\0" in value for value in asgi_scope["path_params"].values()):
            raise NotFound(NO_SUCH_PATH)
        refuse_unknown_parameters(asgi_scope["query_string"], rule.query_names)
        if rule.takes_body:
            _check_media_type(Headers(scope=asgi_scope))


def _check_media_type(headers: Headers) -> None:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise UnsupportedMediaType("Send the body as JSON, with the header Content-Type: application/json.")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("Send the body as it is, without compression and without a Content-Encoding header.")


class BodyLimit:
    """Sends 413 for a body that is larger than the limit of its route.

    The response is sent as soon as the declared or the received length of the body exceeds the limit. The
    routes that read a body as a stream limit it themselves.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rule: RouteRule | None = scope.get(RULE)
        if rule is not None and rule.takes_body and not rule.is_streamed:
            receive = _limited_receive(Headers(scope=scope), receive, rule.max_body_bytes)
        await self._app(scope, receive, send)


def _limited_receive(headers: Headers, receive: Receive, max_bytes: int) -> Receive:
    """Return a `receive` that raises TooLarge after `max_bytes`.

    Raises TooLarge at once when the Content-Length is larger.
    """
    size = f"{max_bytes >> 20} MiB" if max_bytes >= 1 << 20 else f"{max_bytes >> 10} KiB"
    error = TooLarge(f"The body is larger than {size}. Send less in one request.")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise error
    received_bytes = 0

    async def limited_receive() -> Message:
        nonlocal received_bytes
        message = await receive()
        received_bytes += len(message.get("body", b""))
        if received_bytes > max_bytes:
            raise error
        return message

    return limited_receive


class ConditionalScopes(Guard):
    """Sends 403 when the API key lacks a scope that the state of the configuration requires.

    Also sends 404 when there is no such configuration, and 503 when the database is unavailable.
    """

    def __init__(self, app: ASGIApp, deployments: Deployments, flows: Flows) -> None:
        super().__init__(app)
        self._deployments = deployments
        self._flows = flows

    async def check(self, rule: RouteRule, asgi_scope: Scope) -> None:
        if not rule.needs_key:
            return
        key: ApiKey = asgi_scope["api_key"]
        if rule.scope_when_deployed and rule.scope_when_deployed not in key.scopes:
            config_id = asgi_scope["path_params"]["config_id"]
            if await to_thread.run_sync(self._deployments.find, key.owner, config_id):
                raise Forbidden(rule.scope_when_deployed)
        if rule.scope_with_prices_sink and rule.scope_with_prices_sink not in key.scopes:
            config_id = asgi_scope["path_params"]["config_id"]
            flow = await to_thread.run_sync(self._flows.get, key.owner, config_id)
            require_prices_scope(key, flow.pipeline_config.sinks)
