"""Fixtures of all unit tests."""

from collections.abc import Iterator

import pytest

from tests.support.sql import FRESH_DATABASES


@pytest.fixture(autouse=True)
def _closed_databases() -> Iterator[None]:
    """Close the databases that a test opened."""
    yield
    FRESH_DATABASES.close()
