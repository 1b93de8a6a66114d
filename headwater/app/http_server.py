"""Configures the HTTP server of an API process."""

import asyncio
import re
import resource
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import structlog
import uvicorn
from fastapi import FastAPI

from headwater.api.server.client_addresses import TrustedProxies
from headwater.api.server.connection_registry import ConnectionRegistry
from headwater.api.server.limits import ServerLimits
from headwater.api.server.protocol import LimitedProtocol
from headwater.errors import SetupError
from headwater.settings import Settings

GRACE_S = 5
"""How long the server waits for the end of running requests when it stops, in seconds."""
WAITS_END_AFTER_S = 4
"""How long requests may still wait when the server stops, for example for the end of a deploy, in seconds."""
RESERVED_FILES = 300
"""How many open files an API process needs in addition to client connections: databases, Valkey, Kafka, libraries."""

_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]+)?")

log = structlog.get_logger(__name__)


class ApiServer(uvicorn.Server):
    """uvicorn's server, which ends live tails and waiting requests when it stops.

    A tail does not end by itself. uvicorn cancels the requests that take longer than GRACE_S.
    """

    def __init__(self, config: uvicorn.Config, end_tails: Callable[[], None], end_waits: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_tails = end_tails
        self._end_waits = end_waits

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the tails, stop as uvicorn does, and end the waits of requests meanwhile.

        The connections of clients that do not read are aborted: the event loop does not close while bytes for them are
        left.
        """
        self._end_tails()
        asyncio.get_running_loop().call_later(WAITS_END_AFTER_S, self._end_waits)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def server_config(app: FastAPI, settings: Settings, on_refusal: Callable[[str], None]) -> uvicorn.Config:
    """Return uvicorn's configuration. Raises SetupError.

    Args:
        on_refusal: Called with the name of the problem type of each refused request.
    """
    proxies, origins = proxies_of(settings.trusted_proxies), origins_of(settings.cors_origins)
    registry = ConnectionRegistry(limits_of(settings), proxies, on_refusal=on_refusal, cors_origins=origins)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=cast("Any", partial(LimitedProtocol, registry=registry)),
        ws="none",
        log_config=None,
        log_level="error",  # client errors are counted, not logged: clients could fill the disk
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=cast("int", settings.http_keep_alive_s),
        timeout_graceful_shutdown=GRACE_S,
    )


def limits_of(settings: Settings) -> ServerLimits:
    """Return the limits of the server in the settings."""
    return ServerLimits(
        header_bytes=settings.http_header_bytes,
        header_fields=settings.http_header_fields,
        header_timeout_s=settings.http_header_timeout_s,
        stall_timeout_s=settings.http_stall_timeout_s,
        min_bytes_per_s=settings.http_min_bytes_per_s,
        keep_alive_s=settings.http_keep_alive_s,
        connections=settings.http_connections,
        connections_per_address=settings.http_connections_per_address,
    )


def split(text: str) -> list[str]:
    """Split a setting with several values that are separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def proxies_of(text: str) -> TrustedProxies:
    """Parse the trusted proxies of a setting. Raises SetupError."""
    try:
        return TrustedProxies(split(text))
    except ValueError as error:
        raise SetupError(
            f"The setting trusted_proxies can't be read: {error}. Write addresses or networks, as in 10.0.0.0/8,::1."
        ) from error


def origins_of(text: str) -> list[str]:
    """Parse the origins of a setting. Raises SetupError."""
    origins = split(text)
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise SetupError(
                f"The setting cors_origins names {origin!r}. Write origins as https://app.example.com, "
                "with a port where there is one and without a path."
            )
    return origins


def allow_open_files(connections: int) -> None:
    """Raise the limit on open files to what the connections need, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < needed:
            log.warning("the limit on open files is too low for http_connections", allowed=allowed, needed=needed)
