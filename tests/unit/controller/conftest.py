"""Create a world for each test, and close its controller afterwards."""

import threading
from collections.abc import Iterator

import pytest

from tests.unit.controller.world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    stop = threading.Event()
    stop.set()
    world.controller.run(stop)
