"""Fixtures with an installation that tests share, and with installations for single tests."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.installation import ExternalServers, Installation
from tests.support.processes import alive, descendants


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
def installation(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("acceptance")
    with external_servers(request.config.getoption("--external"), directory) as servers:
        yield from running(Installation(directory / "data", external=servers))


def running(installation: Installation) -> Iterator[Installation]:
    """Start an installation, and stop it afterwards. All of its processes must end."""
    installation.start()
    assert installation.process is not None
    yield installation
    below = [process.pid for process in descendants(installation.process.pid)]
    assert installation.stop() == 0, installation.log()
    assert not [pid for pid in below if alive(pid)]


@pytest.fixture
def own_installation(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Installation]:
    """Return an installation that is not started yet, which the test may stop and kill."""
    directory = tmp_path_factory.mktemp("own")
    with external_servers(request.config.getoption("--external"), directory) as servers:
        installation = Installation(directory / "data", external=servers)
        yield installation
        if installation.process is not None and installation.process.poll() is None:
            installation.stop()


@pytest.fixture(scope="session")
def client(installation: Installation) -> Iterator[httpx2.Client]:
    with installation.client() as http_client:
        yield http_client
