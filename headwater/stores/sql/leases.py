"""Leases: one row per name, which is never deleted, so that its fencing token only rises.

Advisory locks are not used, because SQLite has none, and the locks of PostgreSQL have no fencing token.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from headwater.model.lease import Candidate, Fence, Leader, Lease, claim_lease
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.fencing import check_fence
from headwater.stores.sql.tables import UtcDateTime, leases


class SqlLeases:
    """Leases in SQL."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def acquire(self, name: str, candidate: Candidate, ttl_s: float) -> int | None:
        try:
            with self._connections.writing() as connection:
                return _acquire(connection, name, candidate, ttl_s)
        except IntegrityError:  # another process inserted the row of this lease at the same time, and holds the lease
            return None

    def release(self, name: str, holder: str) -> None:
        held = (leases.c.name == name) & (leases.c.holder == holder)
        with self._connections.writing() as connection:
            connection.execute(update(leases).where(held).values(holder=None))

    def leader(self, name: str) -> Leader | None:
        with self._connections.reading() as connection:
            row = _held(connection, name, leases.c.holder, leases.c.failing)
            return None if row is None else Leader(row.holder, row.failing)

    def check(self, fence: Fence) -> None:
        with self._connections.reading() as connection:
            check_fence(connection, fence)


def is_held(connection: Connection, name: str) -> bool:
    """Return whether a process holds a lease.

    The database may have any revision of the schema: all of them have the columns that are read.
    """
    return _held(connection, name) is not None


def _held(connection: Connection, name: str, *columns: Column[Any]) -> Row[Any] | None:
    """Return these columns of a lease; None when no process holds the lease."""
    lease = select(leases.c.expires_at, *columns).where(leases.c.name == name, leases.c.holder.is_not(None))
    row = connection.execute(lease).one_or_none()
    return None if row is None or row.expires_at <= _now(connection) else row


def _acquire(connection: Connection, name: str, candidate: Candidate, ttl_s: float) -> int | None:
    row = connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one_or_none()
    stored = None if row is None else Lease(row.holder, row.fencing_token, row.expires_at, row.lock, row.failing)
    now = _now(connection)  # read after the row is locked, because the lock may have taken long
    lease = claim_lease(stored, candidate, now, timedelta(seconds=ttl_s))
    values = {
        "holder": lease.holder,
        "fencing_token": lease.fencing_token,
        "expires_at": lease.expires_at,
        "lock": lease.lock,
        "failing": lease.current_failure,
    }
    if stored is None:
        connection.execute(insert(leases).values(name=name, **values))
    elif lease != stored:
        connection.execute(update(leases).where(leases.c.name == name).values(**values))
    return lease.fencing_token if lease.holder == candidate.holder else None


def _now(connection: Connection) -> datetime:
    """Return the time of the database's server.

    With SQLite, it is the time of the machine on which all processes run.
    """
    if connection.dialect.name == "sqlite":
        clock = func.strftime("%Y-%m-%d %H:%M:%f000", "now", type_=UtcDateTime)
    else:
        clock = func.clock_timestamp(type_=UtcDateTime)
    now: datetime = connection.execute(select(clock)).scalar_one()
    return now
