"""A real Valkey for tests."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from headwater.children import Child
from headwater.stores.embedded import EmbeddedValkey

READY_WITHIN_S = 30.0


class ValkeyServer:
    """A Valkey of its own that a test may kill and start again; its files stay."""

    def __init__(self, data_dir: Path) -> None:
        self._embedded = EmbeddedValkey(data_dir)
        self._child: Child | None = None
        self.url = self._embedded.url

    def start(self) -> None:
        """Start and wait until it answers."""
        self._child = self._embedded.start()
        self._embedded.wait_ready(self._child, READY_WITHIN_S)

    def persist(self) -> None:
        """Wait until all that was written is on the disk. The server only waits for writes of the same connection."""
        with redis.Redis.from_url(self.url) as client:
            client.set("persist", 1)
            client.delete("persist")
            assert client.waitaof(1, 0, 10_000)[0] == 1

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        assert self._child is not None
        self._child.send(signal.SIGKILL)
        self._child.wait(READY_WITHIN_S)

    def stop(self) -> None:
        """End it, however it is."""
        if self._child is not None:
            self._child.stop(grace_s=5.0)


def _running(data_dir: Path) -> Iterator[ValkeyServer]:
    server = ValkeyServer(data_dir)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """One server for the whole run. Use `valkey_url` unless the fixture must outlive a test."""
    yield from _running(tmp_path_factory.mktemp("valkey"))


@pytest.fixture
def valkey_url(shared_valkey: ValkeyServer) -> Iterator[str]:
    """The URL of an empty Valkey; emptied again after the test."""
    yield shared_valkey.url
    with redis.Redis.from_url(shared_valkey.url) as client:
        client.flushall()


@pytest.fixture
def valkey_server(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A server for this test alone, which may kill and restart it."""
    yield from _running(tmp_path / "data")
