"""Fixtures: an installation that acceptance tests share, and installations for single tests."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.stack import ExternalServers, Stack, alive, descendants


@contextlib.contextmanager
def external_servers(wanted: bool, directory: Path) -> Iterator[ExternalServers | None]:
    """Run external Kafka, Valkey and PostgreSQL for the block if they are wanted."""
    if not wanted:
        yield None
        return
    servers = ExternalServers(directory / "external")
    try:
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("acceptance")
    with external_servers(request.config.getoption("--external"), directory) as servers:
        yield from running(Stack(directory / "data", external=servers))


def running(made: Stack) -> Iterator[Stack]:
    """Start an installation, and stop it afterwards. All of its processes must end."""
    made.start()
    assert made.process is not None
    yield made
    below = [process.pid for process in descendants(made.process.pid)]
    assert made.stop() == 0, made.log()
    assert not [pid for pid in below if alive(pid)]


@pytest.fixture
def own_stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Return an installation that is not started yet, which the test may stop and kill."""
    directory = tmp_path_factory.mktemp("own")
    with external_servers(request.config.getoption("--external"), directory) as servers:
        made = Stack(directory / "data", external=servers)
        yield made
        if made.process is not None and made.process.poll() is None:
            made.stop()


@pytest.fixture(scope="session")
def client(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client() as made:
        yield made
