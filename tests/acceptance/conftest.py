"""One `headwater up` for all acceptance tests that don't need one of their own."""

from collections.abc import Iterator

import httpx
import pytest

from tests.acceptance.stack import Stack, alive, descendants


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    made = Stack(tmp_path_factory.mktemp("acceptance") / "data")
    made.start()
    assert made.process is not None
    yield made
    below = [process.pid for process in descendants(made.process.pid)]
    assert made.stop() == 0, made.log()
    assert not [pid for pid in below if alive(pid)]


@pytest.fixture
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An installation that a test may stop and kill; nothing of it is left behind."""
    made = Stack(tmp_path_factory.mktemp("own") / "data")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.stop()


@pytest.fixture(scope="session")
def client(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client() as made:
        yield made
