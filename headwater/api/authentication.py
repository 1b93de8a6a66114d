"""Middleware that checks API keys."""

from ipaddress import ip_address

import anyio
from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.api.guarded_routes import AuthenticatedRoute
from headwater.api.invalid_credential_limiter import InvalidCredentialLimiter
from headwater.errors import DatabaseUnavailable, RateLimited, Unauthenticated
from headwater.model.audit import Actor, set_actor
from headwater.model.key import ApiKey, is_well_formed
from headwater.services.keys import Keys

MAX_CONCURRENT_KEY_CHECKS = 8


class Authentication:
    """Puts the API key into the ASGI scope, and makes its owner the actor of the audit log.

    Sends 401 without a valid key, 429 to a client address that has sent too many invalid keys, and 503 when the
    database is unavailable.

    A check queries the database on a separate pool of threads, so that it never waits behind other requests. The
    database is not queried for a key with wrong check digits, nor for an unknown key from an address that has sent too
    many invalid keys.
    """

    def __init__(self, app: ASGIApp, keys: Keys, invalid_key_limiter: InvalidCredentialLimiter) -> None:
        self._app = app
        self._keys = keys
        self._invalid_key_limiter = invalid_key_limiter
        self._threads = anyio.CapacityLimiter(MAX_CONCURRENT_KEY_CHECKS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if isinstance(scope.get("route"), AuthenticatedRoute):
            address = client_ip(scope)
            key = await self._authenticate(Headers(scope=scope).getlist("x-api-key"), address)
            scope["api_key"] = key
            set_actor(Actor(key.id, key.owner, address, scope["request_id"]))
        await self._app(scope, receive, send)

    async def _authenticate(self, field_values: list[str], address: str) -> ApiKey:
        """Return the key of a request.

        Args:
            field_values: The values of all X-API-Key fields of the request.
            address: The client's IP address.
        """
        if len(field_values) != 1:
            raise Unauthenticated
        text = field_values[0].strip(" \t")  # white space around a field value does not belong to it (RFC 9110, 5.5)
        if cached := self._keys.authenticate_cached(text):
            return cached
        if not is_well_formed(text):
            raise Unauthenticated
        if self._keys.was_valid(text):
            return await self._query(text)
        return await self._authenticate_unknown(text, address)

    async def _authenticate_unknown(self, text: str, address: str) -> ApiKey:
        """Check a key that this process has not found valid, and count it when it is invalid."""
        if wait_s := self._invalid_key_limiter.take(address):
            reason = "Your address has sent too many invalid keys."
            raise RateLimited(f"{reason} Send a valid key after {wait_s} s.", wait_s)
        try:
            key = await self._query(text)
        except DatabaseUnavailable:
            self._invalid_key_limiter.give_back(address)
            raise
        self._invalid_key_limiter.give_back(address)
        return key

    async def _query(self, text: str) -> ApiKey:
        return await to_thread.run_sync(self._keys.authenticate, text, limiter=self._threads)


def client_ip(scope: Scope) -> str:
    """Return the client's IP address; empty when there is none, as on a unix socket."""
    host = (scope.get("client") or ("",))[0]
    try:
        return str(ip_address(host))
    except ValueError:
        return ""
