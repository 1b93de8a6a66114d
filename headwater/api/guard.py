"""Key, scope, rate and size: checked before any byte of a body is read."""

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
from headwater.api.limits import Limiter
from headwater.api.problems import NO_SUCH_ADDRESS
from headwater.api.queries import refuse_unknown
from headwater.api.schemas import DeploymentBody
from headwater.errors import (
    Forbidden,
    InvalidInput,
    MalformedRequest,
    NotFound,
    Problem,
    RateLimited,
    StoreUnavailable,
    TooLarge,
    Unauthenticated,
    UnsupportedMediaType,
)
from headwater.model.audit import Actor, act_as
from headwater.model.key import ApiKey, is_well_formed
from headwater.model.sink import NewSink, Sink, feed_prices
from headwater.services.keys import Keys

MAX_BODY_BYTES = 32 << 20
MAX_KEY_CHECKS_AT_ONCE = 8
RESERVED_IDS = {
    "config_id": frozenset({"datasets", "limits", "streams", "validate"}),
    "dataset_id": frozenset({"entries"}),
}
"""Names that stand where an id stands, by the id's parameter."""

DEPLOY_SCOPE = "flow:deploy"
PRICES_SCOPE = "prices:write"
SCOPE, SCOPE_WHEN_DEPLOYED, STREAMED = "x-scope", "x-scope-when-deployed", "x-streamed"
SCOPE_WITH_PRICES = "x-scope-with-prices-sink"

KEY_HEADER = APIKeyHeader(
    name="X-API-Key",
    scheme_name="ApiKeyAuth",
    description="An API key, `hw_live_…`. `headwater keys create` makes one.",
    auto_error=False,
)
"""Tells OpenAPI of the header; GuardedRoute is what checks it."""


def guarded_router(prefix: str, tag: str) -> APIRouter:
    """A router whose routes need an API key, each with a scope: `openapi_extra=needs(…)`."""
    return APIRouter(prefix=prefix, route_class=GuardedRoute, tags=[tag], dependencies=[Depends(KEY_HEADER)])


def needs(scope: str, *, when_deployed: str = "", when_feeding_prices: bool = False) -> dict[str, Any]:
    """`openapi_extra` of a route: the scope that it needs, and one that it needs too while `config_id` is deployed.

    when_feeding_prices: it needs PRICES_SCOPE too where `config_id` has a prices sink.
    """
    deployed = {SCOPE_WHEN_DEPLOYED: when_deployed} if when_deployed else {}
    return {SCOPE: scope} | deployed | ({SCOPE_WITH_PRICES: PRICES_SCOPE} if when_feeding_prices else {})


def require_prices_scope(key: ApiKey, sinks: Iterable[Sink | NewSink]) -> None:
    """Raise Forbidden when one is a prices sink, and the key may not feed prices."""
    if feed_prices(sinks) and PRICES_SCOPE not in key.scopes:
        raise Forbidden(PRICES_SCOPE)


class JsonRequest(Request):
    """Reads JSON as RFC 8259 has it: Python's own parser also takes NaN, lone surrogates and UTF-16."""

    async def json(self) -> Any:
        try:
            value = pydantic_core.from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise MalformedRequest(f"The body is not valid JSON: {error}.") from error
        if value is None:  # which FastAPI would take for no body at all
            raise InvalidInput("The request was refused.", [Problem("", "must not be null")])
        return value


class Authenticator:
    """Finds the key that a request was sent with.

    The store is asked on threads of its own, so that a check never waits behind the work of other requests. It is not
    asked for a key whose check digits are wrong, nor for an unknown key from an address that has sent many of these.
    """

    def __init__(self, keys: Keys, failed: FailedKeys) -> None:
        self._keys = keys
        self._failed = failed
        self._threads = anyio.CapacityLimiter(MAX_KEY_CHECKS_AT_ONCE)

    async def __call__(self, headers: Headers, address: str) -> ApiKey:
        """Raises Unauthenticated, RateLimited, StoreUnavailable when the key could not be checked."""
        sent = headers.getlist("x-api-key")
        if len(sent) != 1:
            raise Unauthenticated
        text = sent[0].strip(" \t")  # white space around a value is no part of it (RFC 9110, section 5.5)
        if known := self._keys.recall(text):
            return known
        if not is_well_formed(text):
            raise Unauthenticated
        if self._keys.was_valid(text):
            return await self._ask(text)
        if wait_s := self._failed.take(address):
            reason = "Your address has sent too many keys that are not valid."
            raise RateLimited(f"{reason} Send a valid key after {wait_s} s.", wait_s)
        try:
            found = await self._ask(text)
        except StoreUnavailable:
            self._failed.give_back(address)
            raise
        self._failed.give_back(address)
        return found

    async def _ask(self, text: str) -> ApiKey:
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
        if any(value in RESERVED_IDS.get(name, ()) for name, value in child.get("path_params", {}).items()):
            return Match.NONE, {}
        return match, child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        address = _peer(scope)
        key = await scope["app"].state.authenticator(headers, address)
        scope["api_key"] = key
        act_as(Actor(key.id, key.owner, address, scope.get("request_id", "")))
        if scope["method"] in (self.methods or ()):
            self._check_scope(key)
            await self._count(key, scope)
            receive = self._check(scope, headers, receive)
            await self._check_deployed(key, scope)
            await self._check_prices(key, scope)
            if scope["method"] in idempotency.METHODS and (once := self._once(headers, scope)):
                await once(super().handle, scope, receive, send)
                return
        await super().handle(scope, receive, send)

    def _once(self, headers: Headers, scope: Scope) -> idempotency.Once | None:
        """How to make a call with an Idempotency-Key; None without one."""
        key = idempotency.key_of(headers)
        if key is None:
            return None
        secret = self.response_model is DeploymentBody
        again = f"{self.path_format.rpartition('/deploy')[0]}/deploy".format(**scope["path_params"]) if secret else ""
        calls = scope["app"].state.services.calls
        return idempotency.Once(calls, scope, key, takes_body=self.takes_body, made_anew_at=again)

    def _check_scope(self, key: ApiKey) -> None:
        if self.scope not in key.scopes:
            raise Forbidden(self.scope)

    async def _count(self, key: ApiKey, scope: Scope) -> None:
        """Against the key's rate limit. What changes a deployment must be counted, whatever is away."""
        limiter: Limiter | None = scope["app"].state.limiter
        if limiter is not None:
            deploys = self.scope == DEPLOY_SCOPE and scope["method"] in idempotency.METHODS
            await limiter(key, scope, upload=self.streamed, must_count=deploys)

    def _check(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        if any("\0" in value for value in scope["path_params"].values()):
            raise NotFound(NO_SUCH_ADDRESS)
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


def _peer(scope: Scope) -> str:
    """The client's IP address; empty when there is none, as on a unix socket."""
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
    error = TooLarge(f"The body is larger than {MAX_BODY_BYTES >> 20} MiB. Send less at once.")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise error
    total = 0

    async def counted() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > MAX_BODY_BYTES:
            raise error
        return message

    return counted
