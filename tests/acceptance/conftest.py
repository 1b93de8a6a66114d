"""One `headwater up` for all acceptance tests that don't need one of their own."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.stack import External, Stack
from tests.support.processes import alive, descendants


@contextlib.contextmanager
def external_parts(wanted: bool, directory: Path) -> Iterator[External | None]:
    """Kafka, Valkey and PostgreSQL for one installation, when they are wanted."""
    if not wanted:
        yield None
        return
    parts = External(directory / "external")
    try:
        yield parts
    finally:
        parts.stop()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("acceptance")
    with external_parts(request.config.getoption("--external"), directory) as parts:
        yield from running(Stack(directory / "data", external=parts))


def running(made: Stack) -> Iterator[Stack]:
    """Start it; at the end it must stop by itself, with all that it started."""
    made.start()
    assert made.process is not None
    yield made
    below = [process.pid for process in descendants(made.process.pid)]
    assert made.stop() == 0, made.log()
    assert not [pid for pid in below if alive(pid)]


@pytest.fixture
def own_stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """An installation that a test may stop and kill; nothing of it is left behind."""
    directory = tmp_path_factory.mktemp("own")
    with external_parts(request.config.getoption("--external"), directory) as parts:
        made = Stack(directory / "data", external=parts)
        yield made
        if made.process is not None and made.process.poll() is None:
            made.stop()


@pytest.fixture(scope="session")
def client(stack: Stack) -> Iterator[httpx2.Client]:
    with stack.client() as made:
        yield made
