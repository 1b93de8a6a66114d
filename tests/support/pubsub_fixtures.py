"""Pub/Sub servers as fixtures. Their module is imported only by who asks: it takes a second."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.pubsub_server import PubSubServer


@pytest.fixture(scope="session")
def pubsub() -> "Iterator[PubSubServer]":
    """The fake; all tests share it."""
    from tests.support.pubsub_server import start_fake

    server = start_fake()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pubsub_emulator() -> "Iterator[PubSubServer]":
    """Google's emulator; all tests share it."""
    from tests.support.pubsub_server import start_emulator

    server = start_emulator()
    yield server
    server.stop()
