"""A connection to PostgreSQL with a timeout for servers that hang.

This module is imported only where PostgreSQL is used, since the driver takes long to import.
"""

import time
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

T = TypeVar("T")

REPLY_TIMEOUT_S: Final = 20.0
"""How long to wait for a reply.

It is longer than the server's statement timeout, so that the statement timeout, after which the connection is still
usable, comes first.
"""


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
