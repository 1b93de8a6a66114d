"""A connection to PostgreSQL with a timeout for servers that hang."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from sqlalchemy import Connection, text

T = TypeVar("T")

REPLY_TIMEOUT_S: Final = 20.0
"""How long to wait for a reply.

It is longer than the server's statement timeout, so that the statement timeout, after which the connection is still
usable, comes first.
"""

_NO_TIME_LIMITS: Final = text("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")


class TimedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not reply in `reply_timeout_s`.

    None means no timeout. When the processes of the server hang, the server's own timeouts do not fire. Its kernel
    still acknowledges packets, so the timeouts of TCP do not fire either. Only a timeout in the client helps.
    """

    reply_timeout_s: float | None = REPLY_TIMEOUT_S

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for a reply of the server. Raises OperationalError when no reply arrives in time."""
        limit_s = self.reply_timeout_s if timeout is None else timeout
        started = time.monotonic()
        try:
            return super().wait(gen, interval, limit_s)
        except psycopg.OperationalError:
            if timeout is None and limit_s is not None and time.monotonic() - started >= limit_s:
                self.close()
            raise


@contextmanager
def without_time_limits(connection: Connection) -> Iterator[None]:
    """Disable all timeouts of statements inside the block. SQLite has no such timeouts."""
    driver = connection.connection.driver_connection
    if not isinstance(driver, TimedConnection):
        yield
        return
    connection.execute(_NO_TIME_LIMITS)
    driver.reply_timeout_s = None
    try:
        yield
    finally:
        driver.reply_timeout_s = REPLY_TIMEOUT_S
