"""An API for each test, and two users of it."""

from collections.abc import Iterator

import pytest

from tests.unit.api.installation import Installation, User, installation


@pytest.fixture
def headwater() -> Iterator[Installation]:
    with installation() as made:
        yield made


@pytest.fixture
def alice(headwater: Installation) -> User:
    return headwater.user("alice")


@pytest.fixture
def bob(headwater: Installation) -> User:
    return headwater.user("bob")
