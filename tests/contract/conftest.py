"""The control stores of every kind, for the suites of their protocols."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.stores.memory.control import MemoryDatabase
from tests.support.sql import ControlStores, open_postgres, open_sqlite


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControlStores]:
    """Empty stores."""
    opened = _open(request, tmp_path)
    yield opened
    opened.close()


def _open(request: pytest.FixtureRequest, directory: Path) -> ControlStores:
    if request.param == "postgresql":
        return open_postgres(request.getfixturevalue("postgres_url"))
    return MemoryDatabase() if request.param == "memory" else open_sqlite(directory / "headwater.db")
