"""Guards the routes: checks key, scope, rate limit and size before the body is read."""

from collections.abc import Callable, Coroutine, Iterable
from ipaddress import ip_address
from typing import Any

import anyio
import pydantic_core
from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from headwater.api import idempotency
from headwater.api.failed_keys import FailedKeys
from headwater.api.openapi import SCOPE, SCOPE_WHEN_DEPLOYED, SCOPE_WITH_PRICES
from headwater.api.parsing import refuse_unknown
from headwater.api.problems import NO_SUCH_PATH
from headwater.api.rate_limits import RateLimiter
from headwater.api.schemas import DeploymentBody
from headwater.errors import (
    Fault,
    Forbidden,
    InvalidInput,
    MalformedRequest,
    NotFound,
    RateLimited,
    StoreUnavailable,
    TooLarge,
    Unauthenticated,
    UnsupportedMediaType,
)
from headwater.model.audit import Actor, set_actor
from headwater.model.key import ApiKey, is_well_formed
from headwater.model.sink import NewSink, Sink, has_prices_sink
from headwater.services.keys import Keys

MAX_BODY_BYTES = 32 << 20
MAX_CONCURRENT_KEY_CHECKS = 8
RESERVED_PATH_SEGMENTS = {
    "config_id": frozenset({"datasets", "limits", "streams", "validate"}),
    "dataset_id": frozenset({"entries"}),
}
"""Path segments that are fixed names where another route has an id, by the name of the id's path parameter."""

DEPLOY_SCOPE = "flow:deploy"
PRICES_SCOPE = "prices:write"
STREAMED = "x-streamed"
"""OpenAPI extension of a route that reads its body as a stream, with a limit of its own."""

KEY_HEADER = APIKeyHeader(
    name="X-API-Key",
    scheme_name="ApiKeyAuth",
    description="An API key, `hw_live_…`. Create one with `headwater keys create`.",
    auto_error=False,
)
"""Declares the header in the OpenAPI description. GuardedRoute checks the key."""


def guarded_router(prefix: str, tag: str) -> APIRouter:
    """Return a router whose routes need an API key with a scope.

    Each route sets its scope by `openapi_extra=required_scopes(…)`.
    """
    return APIRouter(prefix=prefix, route_class=GuardedRoute, tags=[tag], dependencies=[Depends(KEY_HEADER)])


def required_scopes(scope: str, *, when_deployed: str = "", when_feeding_prices: bool = False) -> dict[str, Any]:
    """Return the `openapi_extra` of a route, with the scopes that the API key must have.

    when_deployed: A second scope that is required while `config_id` is deployed.
    when_feeding_prices: Whether PRICES_SCOPE is also required when `config_id` has a prices sink.
    """
    deployed = {SCOPE_WHEN_DEPLOYED: when_deployed} if when_deployed else {}
    return {SCOPE: scope} | deployed | ({SCOPE_WITH_PRICES: PRICES_SCOPE} if when_feeding_prices else {})


def require_prices_scope(key: ApiKey, sinks: Iterable[Sink | NewSink]) -> None:
    """Raise Forbidden when one of the sinks is a prices sink and the key lacks PRICES_SCOPE."""
    if has_prices_sink(sinks) and PRICES_SCOPE not in key.scopes:
        raise Forbidden(PRICES_SCOPE)


class JsonRequest(Request):
    """Parses JSON strictly as RFC 8259 defines it.

    Python's own parser also accepts NaN, lone surrogates and UTF-16.
    """

    async def json(self) -> Any:
        try:
            value = pydantic_core.from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise MalformedRequest(f"The body is not valid JSON: {error}.") from error
        if value is None:  # FastAPI would treat null like a missing body
            raise InvalidInput("The request was refused.", [Fault("", "must not be null")])
        return value


class Authenticator:
    """Authenticates a request by its API key.

    Checks query the store on a separate pool of threads, so that a check never waits behind other requests. The store
    is not queried for a key with wrong check digits, nor for an unknown key from a client address that has sent too
    many invalid keys.
    """

    def __init__(self, keys: Keys, failed: FailedKeys) -> None:
        self._keys = keys
        self._failed = failed
        self._threads = anyio.CapacityLimiter(MAX_CONCURRENT_KEY_CHECKS)

    async def __call__(self, headers: Headers, address: str) -> ApiKey:
        """Return the key of a request. Raises Unauthenticated and RateLimited.

        Raises StoreUnavailable when the key could not be checked.
        """
        sent = headers.getlist("x-api-key")
        if len(sent) != 1:
            raise Unauthenticated
        text = sent[0].strip(" \t")  # white space around a field value is not part of it (RFC 9110, section 5.5)
        if cached := self._keys.authenticate_cached(text):
            return cached
        if not is_well_formed(text):
            raise Unauthenticated
        if self._keys.was_valid(text):
            return await self._authenticate(text)
        if wait_s := self._failed.take(address):
            reason = "Your address has sent too many invalid keys."
            raise RateLimited(f"{reason} Send a valid key after {wait_s} s.", wait_s)
        try:
            key = await self._authenticate(text)
        except StoreUnavailable:
            self._failed.give_back(address)
            raise
        self._failed.give_back(address)
        return key

    async def _authenticate(self, text: str) -> ApiKey:
        return await to_thread.run_sync(self._keys.authenticate, text, limiter=self._threads)


class GuardedRoute(APIRoute):
    """A route that needs an API key with a scope."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        extra = self.openapi_extra or {}
        self.scope: str = extra[SCOPE]
        self.scope_when_deployed: str = extra.get(SCOPE_WHEN_DEPLOYED, "")
        self.scope_with_prices: str = extra.get(SCOPE_WITH_PRICES, "")
        self.streamed: bool = extra.get(STREAMED, False)
        self.takes_body = self.body_field is not None or self.streamed
        self.query_names = frozenset(
            field.alias for field in get_flat_params(self.dependant) if isinstance(field.field_info, Query)
        )

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if any(value in RESERVED_PATH_SEGMENTS.get(name, ()) for name, value in child.get("path_params", {}).items()):
            return Match.NONE, {}
        return match, child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        address = _client_ip(scope)
        key = await scope["app"].state.authenticator(headers, address)
        scope["api_key"] = key
        set_actor(Actor(key.id, key.owner, address, scope.get("request_id", "")))
        if scope["method"] in (self.methods or ()):
            self._check_scope(key)
            await self._apply_rate_limit(key, scope)
            receive = self._check_request(scope, headers, receive)
            await self._check_deployed(key, scope)
            await self._check_prices(key, scope)
            if scope["method"] in idempotency.METHODS and (request := self._idempotent_request(headers, scope)):
                await request(super().handle, scope, receive, send)
                return
        await super().handle(scope, receive, send)

    def _idempotent_request(self, headers: Headers, scope: Scope) -> idempotency.IdempotentRequest | None:
        """Return the IdempotentRequest of a request with an Idempotency-Key.

        Returns None without the header.
        """
        key = idempotency.key_of(headers)
        if key is None:
            return None
        regenerated_from = ""
        if self.response_model is DeploymentBody:  # its credentials must not be stored
            deploy_path = f"{self.path_format.rpartition('/deploy')[0]}/deploy"
            regenerated_from = deploy_path.format(**scope["path_params"])
        store = scope["app"].state.services.idempotency
        return idempotency.IdempotentRequest(
            store, scope, key, takes_body=self.takes_body, regenerated_from=regenerated_from
        )

    def _check_scope(self, key: ApiKey) -> None:
        if self.scope not in key.scopes:
            raise Forbidden(self.scope)

    async def _apply_rate_limit(self, key: ApiKey, scope: Scope) -> None:
        """Count the request against the rate limit of its key.

        A request that changes a deployment is refused when it can't be counted because the set store is unavailable.
        """
        limiter: RateLimiter | None = scope["app"].state.limiter
        if limiter is not None:
            deploys = self.scope == DEPLOY_SCOPE and scope["method"] in idempotency.METHODS
            await limiter(key, scope, upload=self.streamed, must_count=deploys)

    def _check_request(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Check the path, the query parameters and the media type.

        Returns `receive` with a limit on the body.
        """
        if any("\0" in value for value in scope["path_params"].values()):
            raise NotFound(NO_SUCH_PATH)
        refuse_unknown(scope["query_string"], self.query_names)
        if not self.takes_body:
            return receive
        _check_media_type(headers)
        return receive if self.streamed else _limited(headers, receive)

    async def _check_deployed(self, key: ApiKey, scope: Scope) -> None:
        if self.scope_when_deployed in {"", *key.scopes}:
            return
        deployments, config_id = scope["app"].state.services.deployments, scope["path_params"]["config_id"]
        if await to_thread.run_sync(deployments.find, key.owner, config_id):
            raise Forbidden(self.scope_when_deployed)

    async def _check_prices(self, key: ApiKey, scope: Scope) -> None:
        if self.scope_with_prices in {"", *key.scopes}:
            return
        flows, config_id = scope["app"].state.services.flows, scope["path_params"]["config_id"]
        require_prices_scope(key, (await to_thread.run_sync(flows.get, key.owner, config_id)).pipeline_config.sinks)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handle


def _client_ip(scope: Scope) -> str:
    """Return the client's IP address; empty when there is none, as on a unix socket."""
    host = (scope.get("client") or ("",))[0]
    try:
        return str(ip_address(host))
    except ValueError:
        return ""


def _check_media_type(headers: Headers) -> None:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise UnsupportedMediaType("Send the body as JSON, with the header Content-Type: application/json.")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("Send the body as it is, without compression and without a Content-Encoding header.")


def _limited(headers: Headers, receive: Receive) -> Receive:
    error = TooLarge(f"The body is larger than {MAX_BODY_BYTES >> 20} MiB. Send less in one request.")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise error
    total = 0

    async def receive_counted() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > MAX_BODY_BYTES:
            raise error
        return message

    return receive_counted
