"""Connections to SQLite or PostgreSQL, with transactions that read or write.

SQLite uses WAL, so that readers never wait. A write transaction starts with BEGIN IMMEDIATE: it waits for the write
lock at its start, and can't fail later with SQLITE_BUSY because another process wrote after it read.

PostgreSQL uses READ COMMITTED, so that each statement sees what was committed before it. A transaction first locks
the rows on which its decision depends, by a SELECT … FOR UPDATE without a join. If a SELECT with a join waited for the
lock, PostgreSQL would evaluate the join with the rows that it had read before the wait, and would miss the newest
revision.
"""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url, text
from tenacity import retry, retry_if_exception, stop_after_delay, wait_random

from headwater.errors import DatabaseUnavailable, SetupError
from headwater.model.lease import current_fence
from headwater.stores.sql.fencing import check_fence

log = structlog.get_logger(__name__)

LOCK_TIMEOUT_S = 5
"""How long to wait for a lock of PostgreSQL, for a connection to PostgreSQL, or for a free connection of the pool."""
WRITE_LOCK_TIMEOUT_S = 20
"""How long a write transaction waits for SQLite's write lock.

It is longer than LOCK_TIMEOUT_S, because SQLite has one writer at a time for the whole database.
"""
STATEMENT_TIMEOUT_S = 15
"""How long a statement of PostgreSQL may take, and how long a transaction may wait for its next statement."""
SILENT_SERVER_TIMEOUT_S = 10
"""How long PostgreSQL's machine may be unreachable before a connection to it is closed."""
POOL_SIZE = 8
# The API handles most requests in 40 threads, each of which uses one connection at most. Key checks, uploads and trials
# have further threads, and wait when all connections are in use.
SQLITE_OVERFLOW = 40
# PostgreSQL allows 100 connections in all by default, so here requests wait for a free connection.
POSTGRESQL_OVERFLOW = 12
BUSY = "The database is busy or does not answer. Send the same request again."
_NO_TIME_LIMITS = text("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
_WRITES = "headwater_writes"
_SQLSTATES_OF_BAD_SETUP = ("42501", "42P01")
"""insufficient_privilege and undefined_table. A wrong setup of the database causes them, not a wrong statement."""


def make_engine(url: str) -> Engine:
    """Return an engine for `sqlite:///PATH` or `postgresql://…`, without connecting.

    Raises SetupError.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    try:
        return _postgresql(parsed)
    except ModuleNotFoundError as error:
        raise SetupError(
            f"The database's URL names a driver that is not installed ({error.name}). Write postgresql://…"
        ) from error


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except exc.ArgumentError as error:
        raise SetupError("The database's URL can't be read. Write sqlite:///PATH or postgresql://…") from error
    if backend not in ("sqlite", "postgresql"):
        raise SetupError(f"Headwater can't use a {backend} database. Write sqlite:///PATH or postgresql://…")
    return parsed


def _postgresql(url: URL) -> Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    limits = {
        "lock_timeout": LOCK_TIMEOUT_S,
        "statement_timeout": STATEMENT_TIMEOUT_S,
        "idle_in_transaction_session_timeout": STATEMENT_TIMEOUT_S,
    }
    options = " ".join(f"-c {name}={seconds * 1000:.0f}" for name, seconds in limits.items())
    # Parameters of libpq. A connection to an unreachable server is closed after SILENT_SERVER_TIMEOUT_S.
    connect_args = {
        "application_name": "headwater",
        "connect_timeout": LOCK_TIMEOUT_S,
        "tcp_user_timeout": SILENT_SERVER_TIMEOUT_S * 1000,
        "keepalives_idle": SILENT_SERVER_TIMEOUT_S,
        "options": f"{options} {url.query.get('options', '')}".strip(),
    }
    engine = _engine(url, connect_args, POSTGRESQL_OVERFLOW)
    event.listen(engine, "do_connect", _connect_postgresql)
    return engine


def _connect_postgresql(_dialect: object, _record: object, cargs: Sequence[Any], cparams: Mapping[str, Any]) -> object:
    from headwater.stores.sql.postgresql import TimedConnection

    return TimedConnection.connect(*cargs, **cparams)


def _engine(url: URL, connect_args: dict[str, Any], max_overflow: int) -> Engine:
    return create_engine(
        url,
        connect_args=connect_args,
        pool_size=POOL_SIZE,
        max_overflow=max_overflow,
        pool_timeout=LOCK_TIMEOUT_S,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _sqlite(url: URL) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise SetupError("Several processes share the database: name a file, as in sqlite:///headwater.db.")
    path = Path(str(url.database))
    try:
        # Only if the file does not exist: closing a file releases all locks that this process has on it.
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as error:
        raise SetupError(
            f"The database {path} can't be opened ({error.strerror}). Choose another path, or another --data-dir."
        ) from error
    engine = _engine(url, {"timeout": WRITE_LOCK_TIMEOUT_S}, SQLITE_OVERFLOW)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # else the driver would begin each transaction with BEGIN DEFERRED
    _use_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_BUSY


# SQLite's busy timeout does not cover the switch to WAL: of two processes that switch a new file, one fails at once.
@retry(
    retry=retry_if_exception(_is_busy),
    wait=wait_random(0, 0.05),
    stop=stop_after_delay(WRITE_LOCK_TIMEOUT_S),
    reraise=True,
)
def _use_wal(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class Connections:
    """The connections to one database. Each is lent for one transaction. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._reader = engine
        self._writer = engine.execution_options(**{_WRITES: True})
        # SQLite has one writer at a time, and waiting writers poll for the lock. If only one thread of each process
        # waits, all processes get the lock equally often.
        self._write_lock = threading.Semaphore() if engine.name == "sqlite" else None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begin a transaction that only reads; on SQLite it reads one snapshot.

        Raises DatabaseUnavailable.
        """
        with _translated_errors(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a transaction that the end of the block commits, or an exception rolls back.

        On SQLite it waits up to WRITE_LOCK_TIMEOUT_S for other threads of this process, and then up to as long for
        other processes. On PostgreSQL it waits up to LOCK_TIMEOUT_S for a lock. Raises DatabaseUnavailable, and
        LeaseLost inside `model.lease.fenced_by`. Callers translate an IntegrityError themselves.
        """
        with _write_lock_held(self._write_lock), _translated_errors(), self._writer.begin() as connection:
            if (fence := current_fence()) is not None:
                check_fence(connection, fence)
            yield connection

    def close(self) -> None:
        """Close all connections that are not in use."""
        self._reader.dispose()


@contextmanager
def without_time_limits(connection: Connection) -> Iterator[None]:
    """Disable all timeouts of statements inside the block. SQLite has no such timeouts."""
    if connection.dialect.name == "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    connection.execute(_NO_TIME_LIMITS)
    driver.reply_timeout_s = None
    try:
        yield
    finally:
        del driver.reply_timeout_s  # the class has the default


@contextmanager
def _write_lock_held(lock: threading.Semaphore | None) -> Iterator[None]:
    if lock is None:
        yield
    elif not lock.acquire(timeout=WRITE_LOCK_TIMEOUT_S):
        raise DatabaseUnavailable(BUSY)
    else:
        try:
            yield
        finally:
            lock.release()


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Translate database errors to DatabaseUnavailable.

    Violated constraints and programming errors are not translated.
    """
    try:
        yield
    except (exc.DBAPIError, exc.TimeoutError) as error:
        if _is_programming_error(error):
            raise
        log.warning("the database is unavailable", reason=str(getattr(error, "orig", error)))
        raise DatabaseUnavailable(BUSY) from error


def _is_programming_error(error: exc.SQLAlchemyError) -> bool:
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    if state in _SQLSTATES_OF_BAD_SETUP:
        return False
    return isinstance(error, exc.IntegrityError | exc.ProgrammingError | exc.DataError)
