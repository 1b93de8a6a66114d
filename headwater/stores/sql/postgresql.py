"""A connection to PostgreSQL with a time-out for servers that hang."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from sqlalchemy import Connection, text

T = TypeVar("T")

ANSWER_TIMEOUT_S: Final = 20.0
"""Longer than the server's statement time-out, which ends a statement and keeps the connection usable."""

_NO_TIME_LIMITS: Final = text("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")


class TimedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer within `answer_timeout_s`; None: no time-out.

    The server's own time limits stop with the server's processes: one that hangs keeps its connections, and its kernel
    acknowledges what is sent, so TCP sees nothing either.
    """

    answer_timeout_s: float | None = ANSWER_TIMEOUT_S

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for an answer, as psycopg does for each call. Raises OperationalError when none comes in time."""
        limit_s = self.answer_timeout_s if timeout is None else timeout
        started = time.monotonic()
        try:
            return super().wait(gen, interval, limit_s)
        except psycopg.OperationalError:
            if timeout is None and limit_s is not None and time.monotonic() - started >= limit_s:
                self.close()
            raise


@contextmanager
def without_time_limits(connection: Connection) -> Iterator[None]:
    """Let the statements of a transaction take as long as they need, on PostgreSQL; SQLite has no such limits."""
    driver = connection.connection.driver_connection
    if not isinstance(driver, TimedConnection):
        yield
        return
    connection.execute(_NO_TIME_LIMITS)
    driver.answer_timeout_s = None
    try:
        yield
    finally:
        driver.answer_timeout_s = ANSWER_TIMEOUT_S
