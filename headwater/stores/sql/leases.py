"""Leases: one row per name, which is never deleted, so that its fencing number only rises.

Advisory locks are not used, because SQLite has none and those of PostgreSQL have no fencing number.
"""

from datetime import datetime, timedelta

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from headwater.model.lease import Candidate, Fence, Leader, Lease, claim_lease
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.fencing import check
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
        this = select(leases.c.holder, leases.c.failing, leases.c.expires_at).where(leases.c.name == name)
        with self._connections.reading() as connection:
            row = connection.execute(this).one_or_none()
            if row is None or row.holder is None or row.expires_at <= _now(connection):
                return None
            return Leader(row.holder, row.failing)

    def check(self, fence: Fence) -> None:
        with self._connections.reading() as connection:
            check(connection, fence)


def _acquire(connection: Connection, name: str, candidate: Candidate, ttl_s: float) -> int | None:
    row = connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one_or_none()
    stored = None if row is None else Lease(row.holder, row.fencing, row.expires_at, row.lock, row.failing)
    now = _now(connection)  # after the lock, for which this may have waited
    asked = claim_lease(stored, candidate, now, timedelta(seconds=ttl_s))
    values = {
        "holder": asked.holder,
        "fencing": asked.fencing_token,
        "expires_at": asked.expires_at,
        "lock": asked.lock,
        "failing": asked.current_failure,
    }
    if stored is None:
        connection.execute(insert(leases).values(name=name, **values))
    elif asked != stored:
        connection.execute(update(leases).where(leases.c.name == name).values(**values))
    return asked.fencing_token if asked.holder == candidate.holder else None


def _now(connection: Connection) -> datetime:
    """Return the time of the database's server, or with SQLite of the machine.

    All processes run on that machine.
    """
    if connection.dialect.name == "sqlite":
        clock = func.strftime("%Y-%m-%d %H:%M:%f000", "now", type_=UtcDateTime)
    else:
        clock = func.clock_timestamp(type_=UtcDateTime)
    now: datetime = connection.execute(select(clock)).scalar_one()
    return now
