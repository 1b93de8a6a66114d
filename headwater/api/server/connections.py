"""The connections of one API process: limits on their number, in all and per address, and their time-outs."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Protocol

import structlog

from headwater.api.server.client_addresses import TrustedProxies, group_of
from headwater.api.server.limits import ServerLimits
from headwater.api.server.refusals import BUSY, TOO_MANY_CONNECTIONS, Refusal

TICK_S = 1.0
MAX_TICKS = 2
"""The most ticks of time that one check accounts for: a later check was delayed by this process, not by clients."""
MAX_SCANNED = 64
"""How many connections, from the oldest on, are scanned for an idle one that can be closed to make room."""


log = structlog.get_logger(__name__)


class Connection(Protocol):
    """What the registry needs of a connection."""

    def is_idle(self) -> bool:
        """Whether no request is under way on the connection."""

    def check_time(self, elapsed_s: float) -> None:
        """Refuse the client, or close the connection, when the client has used up its time."""

    def drop(self) -> None:
        """Close the connection at once."""


class Connections:
    """Admits connections and checks their time every `tick_s`. Used in the thread of the event loop only.

    refused: called with the kind of problem of each refusal.
    cross_origins: origins whose web pages may read refusals; `*` means all.
    """

    def __init__(
        self,
        limits: ServerLimits,
        proxies: TrustedProxies,
        refused: Callable[[str], None] = lambda _: None,
        tick_s: float = TICK_S,
        cross_origins: Collection[str] = (),
    ) -> None:
        self._tick_s = tick_s
        self.limits = limits
        self.proxies = proxies
        self.refused = refused
        self.cross_origins = cross_origins
        self._open: dict[Connection, str] = {}
        self._of_address: Counter[str] = Counter()
        self._checked_at_s: float | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, peer: str) -> Refusal | None:
        """Count a new connection; None when it is admitted.

        At the limit for all addresses, the oldest idle connection is closed to make room. A connection of a
        trusted proxy carries requests of many clients: `begin_request` counts those.
        """
        group = "" if self.proxies.trusts(peer) else group_of(peer)
        if group and self._of_address[group] >= self.limits.connections_per_address:
            return TOO_MANY_CONNECTIONS
        if len(self._open) >= self.limits.connections and not self._make_room():
            return BUSY
        self._open[connection] = group
        if group:
            self._of_address[group] += 1
        if self._checked_at_s is None:
            self._schedule()
        return None

    def _make_room(self) -> bool:
        for connection, _ in zip(list(self._open), range(MAX_SCANNED), strict=False):
            if connection.is_idle():
                self.discard(connection)
                connection.drop()
                return True
        return False

    def discard(self, connection: Connection) -> None:
        """Forget a connection that has ended; no error when it was not admitted."""
        group = self._open.pop(connection, "")
        if group:
            self._release(group)

    def begin_request(self, address: str) -> str | None:
        """Count a request of a client behind a trusted proxy. Returns the group to pass to `end_request`.

        Returns None when the client has too many requests.
        """
        group = group_of(address)
        if self._of_address[group] >= self.limits.connections_per_address:
            return None
        self._of_address[group] += 1
        return group

    def end_request(self, group: str) -> None:
        """Note that a request of a group has ended; the empty group is that of a request that was not counted."""
        if group:
            self._release(group)

    def _release(self, group: str) -> None:
        self._of_address[group] -= 1
        if not self._of_address[group]:
            del self._of_address[group]

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._checked_at_s = loop.time()
        loop.call_later(self._tick_s, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._checked_at_s is not None
        elapsed_s = min(loop.time() - self._checked_at_s, MAX_TICKS * self._tick_s)
        for connection in list(self._open):
            try:
                connection.check_time(elapsed_s)
            except Exception:  # one connection that fails must not end the limits of all others
                log.exception("the time of a connection can't be checked; it is closed")
                self.discard(connection)
                connection.drop()
        self._checked_at_s = None
        if self._open:
            self._schedule()
