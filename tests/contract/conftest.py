"""Fixtures for the contract tests: SQL stores of both kinds, and a sandbox."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sql import FRESH_DATABASES, SqlStores, open_postgres, open_sqlite
from tests.support.v8 import Bench


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStores]:
    """Open empty stores."""
    opened = _open(request, tmp_path)
    yield opened
    opened.close()


def _open(request: pytest.FixtureRequest, directory: Path) -> SqlStores:
    if request.param == "postgresql":
        return open_postgres(request.getfixturevalue("postgres_url"))
    path = directory / "headwater.db"
    FRESH_DATABASES.copy_to(path)
    return open_sqlite(path)


@pytest.fixture(scope="module")
def module_bench() -> Iterator[Bench]:
    """A sandbox for all tests of a file."""
    bench = Bench()
    yield bench
    bench.sandbox.close()


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    """Return the file's sandbox, with the initial sets."""
    module_bench.sets.away = False
    module_bench.sets.asked.clear()
    module_bench.fill("wallets", ["0xAA", "0xbb"])
    module_bench.fill("tokens", ["usdc"])
    return module_bench
