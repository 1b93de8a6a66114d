"""Fixtures that run real Valkey servers."""

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest
import redis

from headwater.children import Child, spawn
from headwater.stores.embedded_valkey import EmbeddedValkey, find_binary
from tests.support.ports import free_port
from tests.support.waiting import until

READY_WITHIN_S = 30.0
SLOTS = 16_384


class ValkeyServer:
    """A Valkey server that a test may kill and restart; its files stay."""

    def __init__(self, data_dir: Path) -> None:
        self._embedded = EmbeddedValkey(data_dir)
        self._child: Child | None = None
        self.url = self._embedded.url

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._child = self._embedded.start()
        self._embedded.wait_ready(self._child, READY_WITHIN_S)

    def kill(self) -> None:
        """Kill the server by SIGKILL."""
        self.send(signal.SIGKILL)
        assert self._child is not None
        self._child.wait(READY_WITHIN_S)

    def send(self, number: signal.Signals) -> None:
        """Send the server a signal."""
        assert self._child is not None
        self._child.send(number)

    def stop(self) -> None:
        """Stop the server if it runs."""
        if self._child is not None:
            self._child.stop(grace_s=5.0)


def _running(data_dir: Path) -> Iterator[ValkeyServer]:
    server = ValkeyServer(data_dir)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Run the session's server. Tests use `valkey_url`, unless a fixture must outlive a test."""
    yield from _running(tmp_path_factory.mktemp("valkey"))


@pytest.fixture
def valkey_url(shared_valkey: ValkeyServer) -> Iterator[str]:
    """Yield the URL of an empty Valkey, and empty it after the test."""
    yield shared_valkey.url
    with redis.Redis.from_url(shared_valkey.url) as client:
        client.flushall()


@pytest.fixture
def valkey_server(tmp_path: Path) -> Iterator[ValkeyServer]:
    """Run a server for this test, which may kill and restart it."""
    yield from _running(tmp_path / "data")


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """Run the session's cluster of three servers without replicas, and yield its ports."""
    folder = tmp_path_factory.mktemp("cluster")
    ports, buses = ([free_port() for _ in range(3)] for _ in range(2))
    children = [_start_cluster_node(folder / str(port), port, bus) for port, bus in zip(ports, buses, strict=True)]
    nodes: list[Any] = [redis.Redis(port=port) for port in ports]
    for number, node in enumerate(nodes):
        until(partial(_answers, node), what="a server")
        first = SLOTS * number // len(nodes)
        node.execute_command("CLUSTER", "ADDSLOTSRANGE", first, SLOTS * (number + 1) // len(nodes) - 1)
        node.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        node.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0], buses[0])
    for node in nodes:
        until(partial(_is_complete, node), what="the cluster")
        node.close()
    yield ports
    for child in children:
        child.stop(grace_s=5.0)


@pytest.fixture
def cluster_ports(shared_cluster: list[int]) -> Iterator[list[int]]:
    """Yield the ports of an empty cluster, and empty it after the test."""
    yield shared_cluster
    for port in shared_cluster:
        with redis.Redis(port=port) as node:
            node.flushall()


@pytest.fixture
def cluster_url(cluster_ports: list[int]) -> str:
    """Return the URL of an empty cluster."""
    return "redis-cluster://" + ",".join(f"127.0.0.1:{port}" for port in cluster_ports)


def _start_cluster_node(folder: Path, port: int, bus: int) -> Child:
    folder.mkdir()
    options = {
        "--port": str(port),
        "--bind": "127.0.0.1",
        "--dir": str(folder),
        "--save": "",
        "--cluster-enabled": "yes",
        "--cluster-port": str(bus),
    }
    words = [word for option in options.items() for word in option]
    return spawn([str(find_binary()), *words], cwd=str(folder), stdout=DEVNULL, stderr=DEVNULL)


def _answers(node: Any) -> bool:
    try:
        return bool(node.ping())
    except redis.ConnectionError:
        return False


def _is_complete(node: Any) -> bool:
    info = node.execute_command("CLUSTER INFO")
    return bool(info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == 3)
