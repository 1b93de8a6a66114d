"""Limits on the number of connections."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from headwater.api.server.client_addresses import TrustedProxies
from headwater.api.server.connection_registry import ConnectionRegistry
from headwater.api.server.limits import ServerLimits
from headwater.api.server.refusals import BUSY, TOO_MANY_CONNECTIONS

TICK_S = 0.02
PROXY = "10.0.0.1"


class Peer:
    """A connection that does nothing."""

    def __init__(self, *, waiting: bool = True) -> None:
        self.waiting = waiting
        self.dropped = False
        self.looked_at = 0
        self.is_looked_at = asyncio.Event()

    def has_no_request(self) -> bool:
        return self.waiting

    def check_time(self, elapsed_s: float) -> None:
        assert 0 < elapsed_s <= 2 * TICK_S
        self.looked_at += 1
        self.is_looked_at.set()

    def drop(self) -> None:
        self.dropped = True


def registry(connections: int = 3, per_address: int = 2) -> ConnectionRegistry:
    limits = ServerLimits(connections=connections, connections_per_address=per_address)
    return ConnectionRegistry(limits, TrustedProxies([PROXY]), tick_s=TICK_S)


def in_loop(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_the_connections_per_address_are_limited() -> None:
    async def test() -> None:
        connections = registry(connections=10)
        first, second = Peer(), Peer()
        assert connections.admit(first, "127.0.0.2") is None
        assert connections.admit(second, "127.0.0.2") is None
        assert connections.admit(Peer(), "127.0.0.2") is TOO_MANY_CONNECTIONS
        assert connections.admit(Peer(), "127.0.0.3") is None
        connections.discard(first)
        connections.discard(first)
        assert connections.admit(Peer(), "127.0.0.2") is None
        assert connections.admit(Peer(), "127.0.0.2") is TOO_MANY_CONNECTIONS

    in_loop(test())


def test_a_trusted_proxy_has_a_higher_limit_than_its_clients() -> None:
    async def test() -> None:
        connections = registry(connections=10)
        assert [connections.admit(Peer(), PROXY) for _ in range(5)] == [None] * 5
        clients = [connections.begin_request("203.0.113.7") for _ in range(3)]
        assert clients == ["203.0.113.7", "203.0.113.7", None]
        connections.end_request("203.0.113.7")
        assert connections.begin_request("203.0.113.7") is not None

    in_loop(test())


def test_the_oldest_idle_connection_is_closed_at_the_limit() -> None:
    async def test() -> None:
        connections = registry(connections=3, per_address=9)
        working, idle, newer = Peer(waiting=False), Peer(), Peer()
        for peer in (working, idle, newer):
            connections.admit(peer, "127.0.0.2")
        assert connections.admit(Peer(), "127.0.0.3") is None
        assert (working.dropped, idle.dropped, newer.dropped) == (False, True, False)
        assert len(connections) == 3

    in_loop(test())


def test_a_new_connection_is_rejected_if_all_are_in_use() -> None:
    async def test() -> None:
        connections = registry(connections=2, per_address=9)
        for _ in range(2):
            connections.admit(Peer(waiting=False), "127.0.0.2")
        assert connections.admit(Peer(), "127.0.0.3") is BUSY

    in_loop(test())


def test_the_check_runs_while_there_are_connections() -> None:
    async def test() -> None:
        connections = registry()
        peer = Peer()
        connections.admit(peer, "127.0.0.2")
        await peer.is_looked_at.wait()
        connections.discard(peer)
        await asyncio.sleep(10 * TICK_S)
        looked_at = peer.looked_at
        later = Peer()
        connections.admit(later, "127.0.0.2")
        await later.is_looked_at.wait()
        assert peer.looked_at == looked_at

    in_loop(test())


def test_an_error_of_one_connection_does_not_affect_others() -> None:
    class Failing(Peer):
        def check_time(self, elapsed_s: float) -> None:  # like the others
            raise RuntimeError

    async def test() -> None:
        connections = registry()
        failing, peer = Failing(), Peer()
        connections.admit(failing, "127.0.0.2")
        connections.admit(peer, "127.0.0.3")
        for _ in range(2):
            await peer.is_looked_at.wait()
            peer.is_looked_at.clear()
        assert (failing.dropped, len(connections)) == (True, 1)

    in_loop(test())
