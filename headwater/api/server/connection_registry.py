"""The open connections of one API process: limits in total and per client, and timeouts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Protocol

import structlog

from headwater.api.server.client_addresses import TrustedProxies, client_prefix
from headwater.api.server.limits import ServerLimits
from headwater.api.server.refusals import BUSY, TOO_MANY_CONNECTIONS, Refusal

TICK_S = 1.0
MAX_TICKS = 2
"""A check charges at most this many ticks to the clients.

A longer time since the last check means that this process was slow, not the clients.
"""
MAX_CANDIDATES_TO_CLOSE = 64
"""How many of the oldest connections are searched for one without a request, which can be closed to make room."""

log = structlog.get_logger(__name__)


class Connection(Protocol):
    """The methods of a connection that the registry calls."""

    def has_no_request(self) -> bool:
        """Whether no request is processed. The client may have sent a part of a request head."""

    def check_time(self, elapsed_s: float) -> None:
        """Refuse the client, or close the connection, when the client has used up its time."""

    def drop(self) -> None:
        """Close the connection at once."""


class ConnectionRegistry:
    """Admits connections and checks their time every `tick_s` seconds.

    Only the thread of the event loop may use it. Connections and requests are counted by the client's `client_prefix`.

    Attributes:
        on_refusal: Called with the name of the problem type of each refusal.
        cors_origins: Origins whose web pages may read refusals; `*` means all.
    """

    def __init__(
        self,
        limits: ServerLimits,
        proxies: TrustedProxies,
        *,
        on_refusal: Callable[[str], None] = lambda _: None,
        tick_s: float = TICK_S,
        cors_origins: Collection[str] = (),
    ) -> None:
        self._tick_s = tick_s
        self.limits = limits
        self.proxies = proxies
        self.on_refusal = on_refusal
        self.cors_origins = cors_origins
        # The client of each open connection; empty when the connection does not count for a client.
        self._open: dict[Connection, str] = {}
        self._count_by_client: Counter[str] = Counter()
        self._last_check_s: float | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, peer: str) -> Refusal | None:
        """Count a new connection. Returns None when it is admitted.

        At the limit for all clients, the oldest connection without a request is closed to make room. A connection of a
        trusted proxy does not count for a client, because it has requests of many clients; `begin_request` counts these
        requests.
        """
        client = "" if self.proxies.trusts(peer) else client_prefix(peer)
        if client and self._count_by_client[client] >= self.limits.connections_per_address:
            return TOO_MANY_CONNECTIONS
        if len(self._open) >= self.limits.connections and not self._make_room():
            return BUSY
        self._open[connection] = client
        if client:
            self._count_by_client[client] += 1
        if self._last_check_s is None:
            self._schedule_check()
        return None

    def _make_room(self) -> bool:
        """Close the oldest connection without a request.

        Returns False when there is none among the oldest connections.
        """
        for connection, _ in zip(list(self._open), range(MAX_CANDIDATES_TO_CLOSE), strict=False):
            if connection.has_no_request():
                self.discard(connection)
                connection.drop()
                return True
        return False

    def discard(self, connection: Connection) -> None:
        """Remove a connection that has ended. A connection that was not admitted is ignored."""
        client = self._open.pop(connection, "")
        if client:
            self._release(client)

    def begin_request(self, address: str) -> str | None:
        """Count a request of a client behind a trusted proxy.

        Returns the client to pass to `end_request`; None when the client has too many requests.
        """
        client = client_prefix(address)
        if self._count_by_client[client] >= self.limits.connections_per_address:
            return None
        self._count_by_client[client] += 1
        return client

    def end_request(self, client: str) -> None:
        """Count the end of a request. An empty `client` means that the request was not counted."""
        if client:
            self._release(client)

    def _release(self, client: str) -> None:
        self._count_by_client[client] -= 1
        if not self._count_by_client[client]:
            del self._count_by_client[client]

    def _schedule_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._last_check_s = loop.time()
        loop.call_later(self._tick_s, self._check_connections, loop)

    def _check_connections(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._last_check_s is not None
        elapsed_s = min(loop.time() - self._last_check_s, MAX_TICKS * self._tick_s)
        for connection in list(self._open):
            try:
                connection.check_time(elapsed_s)
            except Exception:  # an error in one connection must not end the checks of all others
                log.exception("the time of a connection can't be checked; it is closed")
                self.discard(connection)
                connection.drop()
        self._last_check_s = None
        if self._open:
            self._schedule_check()
