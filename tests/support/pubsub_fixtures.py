"""Fixtures for Pub/Sub servers.

Their module takes a second to import, so it is imported only when needed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.pubsub_server import PubSubServer


@pytest.fixture(scope="session")
def pubsub() -> "Iterator[PubSubServer]":
    """Run the fake server, which all tests share."""
    from tests.support.pubsub_server import start_fake

    server = start_fake()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pubsub_emulator() -> "Iterator[PubSubServer]":
    """Run Google's emulator, which all tests share."""
    from tests.support.pubsub_server import start_emulator

    server = start_emulator()
    yield server
    server.stop()
