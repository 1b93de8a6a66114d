"""The connections of one API process, their limits in total and per address, and time-outs."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Protocol

import structlog

from headwater.api.server.client_addresses import TrustedProxies, client_key
from headwater.api.server.limits import ServerLimits
from headwater.api.server.refusals import BUSY, TOO_MANY_CONNECTIONS, Refusal

TICK_S = 1.0
MAX_TICKS = 2
"""The most ticks of time that one check accounts for: a later check was delayed by this process, not by clients."""
MAX_IDLE_CANDIDATES = 64
"""How many of the oldest connections are checked for an idle one that can be closed to make room."""

log = structlog.get_logger(__name__)


class Connection(Protocol):
    """The methods of a connection that the registry calls."""

    def is_idle(self) -> bool:
        """Whether no request is under way on the connection."""

    def check_time(self, elapsed_s: float) -> None:
        """Refuse the client, or close the connection, when the client has used up its time."""

    def drop(self) -> None:
        """Close the connection at once."""


class Connections:
    """Admits connections and checks their time every `tick_s` seconds.

    Used in the thread of the event loop only.

    Attributes:
        on_refusal: Called with the name of the problem type of each refusal.
        cross_origins: Origins whose web pages may read refusals; `*` means all.
    """

    def __init__(
        self,
        limits: ServerLimits,
        proxies: TrustedProxies,
        *,
        on_refusal: Callable[[str], None] = lambda _: None,
        tick_s: float = TICK_S,
        cross_origins: Collection[str] = (),
    ) -> None:
        self._tick_s = tick_s
        self.limits = limits
        self.proxies = proxies
        self.on_refusal = on_refusal
        self.cross_origins = cross_origins
        self._open: dict[Connection, str] = {}
        self._count_by_client: Counter[str] = Counter()
        self._last_check_s: float | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, peer: str) -> Refusal | None:
        """Count a new connection. Returns None when it is admitted.

        At the limit for all addresses, the oldest idle connection is closed to make room. A connection of a trusted
        proxy is not counted for its address, because it has requests of many clients: `begin_request` counts these.
        """
        group = "" if self.proxies.trusts(peer) else client_key(peer)
        if group and self._count_by_client[group] >= self.limits.connections_per_address:
            return TOO_MANY_CONNECTIONS
        if len(self._open) >= self.limits.connections and not self._make_room():
            return BUSY
        self._open[connection] = group
        if group:
            self._count_by_client[group] += 1
        if self._last_check_s is None:
            self._schedule()
        return None

    def _make_room(self) -> bool:
        for connection, _ in zip(list(self._open), range(MAX_IDLE_CANDIDATES), strict=False):
            if connection.is_idle():
                self.discard(connection)
                connection.drop()
                return True
        return False

    def discard(self, connection: Connection) -> None:
        """Remove a connection that has ended. A connection that was not admitted is ignored."""
        group = self._open.pop(connection, "")
        if group:
            self._release(group)

    def begin_request(self, address: str) -> str | None:
        """Count a request of a client behind a trusted proxy.

        Returns the group to pass to `end_request`. Returns None when the client has too many requests.
        """
        group = client_key(address)
        if self._count_by_client[group] >= self.limits.connections_per_address:
            return None
        self._count_by_client[group] += 1
        return group

    def end_request(self, group: str) -> None:
        """Count the end of a request. The empty group of a request that was not counted is ignored."""
        if group:
            self._release(group)

    def _release(self, group: str) -> None:
        self._count_by_client[group] -= 1
        if not self._count_by_client[group]:
            del self._count_by_client[group]

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._last_check_s = loop.time()
        loop.call_later(self._tick_s, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
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
            self._schedule()
