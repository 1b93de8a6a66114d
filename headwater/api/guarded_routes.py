"""The classes and routers of guarded routes, and the rule that each route has.

The guards (guard.py) check the requests to guarded routes. An authenticated route is a guarded route that needs an API
key. Most guarded routes are authenticated.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Self

import pydantic_core
from fastapi import APIRouter, Depends, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.requests import ClientDisconnect

from headwater.api.faults import pointer
from headwater.errors import Fault, Forbidden, InvalidInput, MalformedRequest
from headwater.model.key import ApiKey
from headwater.model.sink import NewSink, Sink, has_prices_sink
from headwater.model.value_sets import MAX_REPORTED_FAULTS

DEPLOY_SCOPE = "flow:deploy"
PRICES_SCOPE = "prices:write"
MAX_BODY_BYTES = 32 << 20
MAX_PUBLIC_BODY_BYTES = 16 << 10
"""The largest body of a request that needs no API key."""
MAX_EMPTY_BODY_BYTES = 1024
"""How much of a body is read where none is expected."""

# OpenAPI extensions of an operation.
SCOPE = "x-scope"
"""The scope that the API key must have."""
SCOPE_WHEN_DEPLOYED = "x-scope-when-deployed"
"""A further scope that the API key must have while the configuration is deployed."""
SCOPE_WITH_PRICES_SINK = "x-scope-with-prices-sink"
"""A further scope that the API key must have when the configuration has a prices sink."""
STREAMED = "x-streamed"
"""True when the route reads its body as a stream, which it limits itself."""

API_KEY_HEADER = APIKeyHeader(
    name="X-API-Key",
    scheme_name="ApiKeyAuth",
    description="An API key, `hw_live_…`. Create one with `headwater keys create`.",
    auto_error=False,
)
"""Declares the header in the OpenAPI description. The middleware Authentication checks the key."""


def authenticated_router(prefix: str, tag: str) -> APIRouter:
    """Return a router whose routes need an API key.

    Each route declares its scope with `openapi_extra=required_scopes(…)`.
    """
    return APIRouter(prefix=prefix, route_class=AuthenticatedRoute, tags=[tag], dependencies=[Depends(API_KEY_HEADER)])


def public_router(prefix: str, tag: str) -> APIRouter:
    """Return a router whose routes need no API key.

    The guards check everything else about the requests to these routes.
    """
    return APIRouter(prefix=prefix, route_class=GuardedRoute, tags=[tag])


def required_scopes(scope: str, *, when_deployed: str = "", with_prices_sink: bool = False) -> dict[str, Any]:
    """Return the `openapi_extra` of a route: the scopes that the API key must have.

    Args:
        scope: The scope that is always required.
        when_deployed: A further scope that is required while the configuration `config_id` is deployed.
        with_prices_sink: Whether PRICES_SCOPE is also required when the configuration has a prices sink.
    """
    extensions = {SCOPE: scope}
    if when_deployed:
        extensions[SCOPE_WHEN_DEPLOYED] = when_deployed
    if with_prices_sink:
        extensions[SCOPE_WITH_PRICES_SINK] = PRICES_SCOPE
    return extensions


def require_prices_scope(key: ApiKey, sinks: Iterable[Sink | NewSink]) -> None:
    """Raise Forbidden when one of the sinks is a prices sink and the key lacks PRICES_SCOPE."""
    if has_prices_sink(sinks) and PRICES_SCOPE not in key.scopes:
        raise Forbidden(PRICES_SCOPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRule:
    """The requirements of the guards on the requests to one route.

    Attributes:
        key_scope: The scope that the API key must have; empty when no key is needed.
        scope_when_deployed: A further scope while the configuration is deployed; empty when none is required.
        scope_with_prices_sink: A further scope when the configuration has a prices sink; empty when none is required.
        may_change_deployment: Whether a request can deploy or tear down a configuration, or change its deployment.
        takes_body: Whether the route reads a body.
        is_streamed: Whether the route reads its body as a stream, which it limits itself.
        query_names: The query parameters that the route has.
    """

    key_scope: str
    scope_when_deployed: str
    scope_with_prices_sink: str
    may_change_deployment: bool
    takes_body: bool
    is_streamed: bool
    query_names: frozenset[str]

    @property
    def needs_key(self) -> bool:
        return bool(self.key_scope)

    @property
    def max_body_bytes(self) -> int:
        return MAX_BODY_BYTES if self.needs_key else MAX_PUBLIC_BODY_BYTES

    @classmethod
    def of(cls, route: APIRoute) -> Self:
        """Return the rule of a route, from its `openapi_extra` and its signature."""
        extra = route.openapi_extra or {}
        scope, scope_when_deployed = extra.get(SCOPE, ""), extra.get(SCOPE_WHEN_DEPLOYED, "")
        is_streamed: bool = extra.get(STREAMED, False)
        parameters = get_flat_params(route.dependant)
        return cls(
            key_scope=scope,
            scope_when_deployed=scope_when_deployed,
            scope_with_prices_sink=extra.get(SCOPE_WITH_PRICES_SINK, ""),
            may_change_deployment=DEPLOY_SCOPE in (scope, scope_when_deployed) and "GET" not in (route.methods or ()),
            takes_body=is_streamed or route.body_field is not None,
            is_streamed=is_streamed,
            query_names=frozenset(field.alias for field in parameters if isinstance(field.field_info, Query)),
        )


class GuardedRoute(APIRoute):
    """A route whose requests the guards check. It parses the body as JSON, see JsonRequest."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.rule = RouteRule.of(self)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            if not self.rule.takes_body:
                await _require_no_members(request)
            return await handler(JsonRequest(request.scope, request.receive))

        return handle


class AuthenticatedRoute(GuardedRoute):
    """A guarded route that needs an API key."""


async def _require_no_members(request: Request) -> None:
    """Refuse a body with members, which would have no effect.

    An empty body and an empty object are accepted.
    """
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_EMPTY_BODY_BYTES:
                break
    except ClientDisconnect as error:
        raise MalformedRequest("The connection ended before the whole body had arrived. Send it again.") from error
    if not body.strip():
        return
    try:
        sent = pydantic_core.from_json(bytes(body)) if len(body) <= MAX_EMPTY_BODY_BYTES else None
    except ValueError:
        sent = None
    if sent == {}:
        return
    names = list(sent)[:MAX_REPORTED_FAULTS] if isinstance(sent, dict) else []
    detail = "is not a member of this request, which has none; send an empty body"
    faults = [Fault(pointer([name]), detail) for name in names]
    raise InvalidInput("The request was refused.", faults or [Fault("", "must be empty: this request has no members")])


class JsonRequest(Request):
    """Parses JSON strictly as RFC 8259 defines it.

    Python's own parser also accepts NaN, lone surrogates and UTF-16.
    """

    async def json(self) -> Any:
        try:
            value = pydantic_core.from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise MalformedRequest(f"The body is not valid JSON: {error}.") from error
        if value is None:  # FastAPI treats null like a missing body
            raise InvalidInput("The request was refused.", [Fault("", "must not be null")])
        return value
