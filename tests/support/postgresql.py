"""Fixtures for PostgreSQL.

There is one server per test session, whose tables are emptied for each test. The driver takes long to import, so it is
imported only when needed.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.stores.sql.connections import make_engine
from headwater.stores.sql.migrate import migrate
from headwater.stores.sql.tables import metadata

if TYPE_CHECKING:
    from tests.support.postgres_server import PostgresServer

SHARED = "shared"

_numbers = itertools.count(1)


def empty_tables(server: "PostgresServer") -> None:
    """Remove all rows from the database of `postgres_url`."""
    tables = (table.name for table in reversed(metadata.sorted_tables) if table.name != "doorbell")
    emptied = "; ".join(f"DELETE FROM {table}" for table in tables)
    server.execute(f"{emptied}; UPDATE doorbell SET value = 0", SHARED)


def _running() -> "Iterator[PostgresServer]":
    from tests.support.postgres_server import PostgresServer

    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def shared_postgres() -> "Iterator[PostgresServer]":
    """Run the session's server. A test that needs only a database uses `postgres_url`."""
    yield from _running()


@pytest.fixture(scope="session")
def _database_with_tables(shared_postgres: "PostgresServer") -> str:
    shared_postgres.execute(f"CREATE DATABASE {SHARED}")
    engine = make_engine(shared_postgres.url(SHARED))
    migrate(engine)
    engine.dispose()
    return SHARED


@pytest.fixture
def postgres_url(shared_postgres: "PostgresServer", _database_with_tables: str) -> str:
    """Return the URL of a database with Headwater's tables, empty.

    Deleting rows is faster than a new database.
    """
    empty_tables(shared_postgres)
    return shared_postgres.url(_database_with_tables)


@pytest.fixture
def empty_postgres_url(shared_postgres: "PostgresServer") -> Iterator[str]:
    """Create a new database without tables for this test, and yield its URL."""
    name = f"test_{next(_numbers)}"
    shared_postgres.execute(f"CREATE DATABASE {name}")
    yield shared_postgres.url(name)
    shared_postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_server() -> "Iterator[PostgresServer]":
    """Run a server for this test, which may kill and restart it."""
    yield from _running()
