"""Fixtures of all unit tests."""

import gc
from collections.abc import Iterator

import pytest

from tests.support.sql import FRESH_DATABASES


@pytest.fixture(autouse=True, scope="session")
def _one_migration() -> Iterator[None]:
    """Migrate one SQLite database, of which all others are copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.stores.sql.database.migrate", FRESH_DATABASES.migrate)
        yield


@pytest.fixture(autouse=True, scope="session")
def _rare_garbage_collections() -> Iterator[None]:
    """Collect garbage rarely, since unit tests allocate many objects but few reference cycles."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    yield
    gc.set_threshold(*thresholds)


@pytest.fixture(autouse=True)
def _closed_databases() -> Iterator[None]:
    """Close the databases that a test opened."""
    yield
    FRESH_DATABASES.close()
