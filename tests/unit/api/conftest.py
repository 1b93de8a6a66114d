"""Fixtures: a new API for each test, and two users of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.unit.api.installation import Installation, User


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """The event loop that all APIs of the tests share."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def headwater(portal: BlockingPortal) -> Iterator[Installation]:
    with Installation(portal).serving() as headwater:
        yield headwater


@pytest.fixture(scope="session")
def schema(portal: BlockingPortal) -> dict[str, Any]:
    """Return the OpenAPI description, which is the same for each API."""
    with Installation(portal).serving() as headwater:
        description: dict[str, Any] = headwater.nobody().get("/openapi.json").json()
    return description


@pytest.fixture
def alice(headwater: Installation) -> User:
    return headwater.user("alice")


@pytest.fixture
def bob(headwater: Installation) -> User:
    return headwater.user("bob")
