"""Backs up all rows of a database, and restores them into another one.

Both may be SQLite or PostgreSQL. A backup contains the revision of its schema. The rows are restored into tables of
that revision; the next start of Headwater migrates them.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Connection, Inspector, MetaData, Table, delete, event, func, insert, inspect, select, text

from headwater.errors import SetupError
from headwater.stores.sql.connections import Connections, make_engine, without_time_limits
from headwater.stores.sql.leases import is_held
from headwater.stores.sql.migrate import SCRIPTS
from headwater.stores.sql.tables import StoredJson, audit, metadata

ROWS_PER_FETCH = 100
_VERSION_TABLE = "alembic_version"
_COUNT_OTHER_CONNECTIONS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'headwater' AND pid <> pg_backend_pid()"
)

DumpedRow = tuple[str, dict[str, Any]]
"""The name of a table, and the values of a row by column, as types of JSON."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent snapshot of all rows.

    Attributes:
        revision: The revision of the schema.
        rows: The rows, in the order of foreign keys. The iterator can be consumed once.
    """

    revision: str
    rows: Iterator[DumpedRow]


@contextmanager
def snapshot(url: str) -> Iterator[Snapshot]:
    """Read a consistent snapshot of a database, which may be in use.

    Raises SetupError and DatabaseUnavailable.
    """
    engine = make_engine(url)
    connections = Connections(engine)
    try:
        with connections.reading() as connection, _repeatable_read(connection), without_time_limits(connection):
            revision = MigrationContext.configure(connection).get_current_revision()
            if revision is None:
                raise SetupError("The database contains no Headwater schema. Name the database that Headwater uses.")
            yield Snapshot(revision, _dump(connection))
    finally:
        connections.close()


@contextmanager
def _repeatable_read(connection: Connection) -> Iterator[None]:
    """Read in a repeatable-read transaction, so that all statements see the same rows.

    SQLite does so anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    yield


def _dump(connection: Connection) -> Iterator[DumpedRow]:
    for table in _existing_tables(connection).sorted_tables:
        for row in connection.execution_options(yield_per=ROWS_PER_FETCH).execute(select(table)):
            yield table.name, {name: _encode(value) for name, value in row._mapping.items()}


def _existing_tables(connection: Connection) -> MetaData:
    """Return Headwater's tables as they are in the database.

    The schema of the database may be of an older version.
    """
    existing = MetaData()
    event.listen(existing, "column_reflect", _tolerate_damaged_json)
    existing.reflect(connection, only=lambda name, _: name in metadata.tables)
    return existing


def _tolerate_damaged_json(_inspector: Inspector, _table: Table, column: Any) -> None:
    if isinstance(column["type"], JSON):
        column["type"] = StoredJson()


def load(url: str, revision: str, rows: Iterable[DumpedRow], min_fencing_token: int = 0) -> Counter[str]:
    """Replace all data of a database by rows of a snapshot, in one transaction.

    Returns the row counts by table. Afterwards all leases are free. The next holder of a lease gets a fencing token
    above `min_fencing_token` and above those in the database and in the snapshot, if the snapshot has this lease.
    Raises DatabaseUnavailable, and SetupError when the rows are from a newer version of Headwater, or when other
    processes use a PostgreSQL database. The caller ensures that no other process uses an SQLite database.
    """
    engine = make_engine(url)
    connections = Connections(engine)
    try:
        with connections.writing() as connection, without_time_limits(connection):
            if engine.name == "postgresql":
                _require_no_other_connections(connection)
            last_fencing_token = max(min_fencing_token, _highest_fencing_token(connection))
            _drop_tables(connection)
            _create_tables(connection, revision)
            written = _insert(connection, rows)
            _free_leases(connection, last_fencing_token)
            if engine.name == "postgresql":
                _advance_audit_sequence(connection)
        return written
    finally:
        connections.close()


def require_known(revision: str) -> None:
    """Raise SetupError when a schema revision is of a newer version of Headwater."""
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision not in known:
        raise SetupError(
            f"The backup was made by a newer Headwater (schema {revision}). Restore it with that or a later version."
        )


def is_empty(url: str) -> bool:
    """Return whether a database contains no Headwater schema.

    Raises SetupError and DatabaseUnavailable.
    """
    with _reading(url) as connection:
        return not inspect(connection).has_table(_VERSION_TABLE)


def highest_fencing_token(url: str) -> int:
    """Return the highest fencing token of the leases in a database.

    Raises SetupError and DatabaseUnavailable.
    """
    with _reading(url) as connection:
        return _highest_fencing_token(connection)


def require_unused(url: str, lease: str) -> None:
    """Raise SetupError when other processes use a database.

    A process uses it when it holds the lease, or when it has a connection to PostgreSQL. The schema may have any
    revision. Also raises DatabaseUnavailable.
    """
    with _reading(url) as connection:
        if inspect(connection).has_table(_VERSION_TABLE) and is_held(connection, lease):
            raise SetupError(
                "A controller holds the lease of this database. Stop all processes of Headwater. If a controller was "
                "killed, wait 10 s until its lease has expired."
            )
        if connection.dialect.name == "postgresql":
            _require_no_other_connections(connection)


@contextmanager
def _reading(url: str) -> Iterator[Connection]:
    connections = Connections(make_engine(url))
    try:
        with connections.reading() as connection:
            yield connection
    finally:
        connections.close()


def _require_no_other_connections(connection: Connection) -> None:
    if others := connection.execute(_COUNT_OTHER_CONNECTIONS).scalar_one():
        raise SetupError(
            f"Headwater uses this database ({others} connections). Stop all its processes, on all machines, first."
        )


def _highest_fencing_token(connection: Connection) -> int:
    if not inspect(connection).has_table("leases"):
        return 0
    return int(connection.execute(text("SELECT coalesce(max(fencing), 0) FROM leases")).scalar_one())


def _drop_tables(connection: Connection) -> None:
    existing = MetaData()
    names = {*metadata.tables, _VERSION_TABLE}
    existing.reflect(connection, only=lambda name, _: name in names)
    existing.drop_all(connection)


def _create_tables(connection: Connection, revision: str) -> None:
    require_known(revision)
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    return config


def _insert(connection: Connection, rows: Iterable[DumpedRow]) -> Counter[str]:
    existing = _existing_tables(connection)
    for table in reversed(existing.sorted_tables):
        connection.execute(delete(table))  # migrations insert rows too
    written: Counter[str] = Counter()
    is_sqlite = connection.dialect.name == "sqlite"
    for name, values in rows:
        if name not in existing.tables:
            raise SetupError(
                f"The backup is damaged: it has rows of a table {name}, which its schema does not contain. "
                "Use another backup."
            )
        decoded = {column: _decode(value, is_sqlite) for column, value in values.items()}
        connection.execute(insert(existing.tables[name]).values(**decoded))
        written[name] += 1
    return written


def _free_leases(connection: Connection, last_fencing_token: int) -> None:
    connection.execute(
        text("UPDATE leases SET holder = NULL, fencing = CASE WHEN fencing > :last THEN fencing ELSE :last END + 1"),
        {"last": last_fencing_token},
    )


def _advance_audit_sequence(connection: Connection) -> None:
    """Let the ids of new audit entries begin after the ids of the restored entries."""
    if not inspect(connection).has_table(audit.name):  # the first schema has no audit log
        return
    last = connection.execute(select(func.max(audit.c.id))).scalar_one()
    if last is not None:
        sequence = func.pg_get_serial_sequence(audit.name, audit.c.id.name)
        connection.execute(select(func.setval(sequence, last)))


def _encode(value: object) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return {"time": utc.isoformat()}
        case bytes() | memoryview():
            return {"bytes": base64.b64encode(bytes(value)).decode()}
        case _:
            return {"json": value}


def _decode(value: Any, is_sqlite: bool) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "time" in value:
        time = datetime.fromisoformat(value["time"])
        return time.replace(tzinfo=None) if is_sqlite else time
    return base64.b64decode(value["bytes"]) if "bytes" in value else value["json"]
