"""Leases: one row per name, never removed, so that its fencing number only rises."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from headwater.stores.sql.connections import Connections
from headwater.stores.sql.tables import leases


class SqlLeases:
    """Leases in SQL. All callers' clocks must agree to well within a lease's length."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def acquire(self, name: str, holder: str, now: datetime, ttl_s: float) -> int | None:
        expires_at = now + timedelta(seconds=ttl_s)
        try:
            with self._connections.writing() as connection:
                return _acquire(connection, name, holder, now, expires_at)
        except IntegrityError:  # two made the first row of this name at once; the other one holds it
            return None

    def release(self, name: str, holder: str) -> None:
        held = (leases.c.name == name) & (leases.c.holder == holder)
        with self._connections.writing() as connection:
            connection.execute(update(leases).where(held).values(holder=None))

    def holder(self, name: str, now: datetime) -> str | None:
        live = (leases.c.name == name) & (leases.c.expires_at > now)
        with self._connections.reading() as connection:
            return connection.execute(select(leases.c.holder).where(live)).scalar_one_or_none()


def _acquire(connection: Connection, name: str, holder: str, now: datetime, expires_at: datetime) -> int | None:
    lease = connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one_or_none()
    if lease is None:
        connection.execute(insert(leases).values(name=name, holder=holder, fencing=1, expires_at=expires_at))
        return 1
    if lease.holder not in (None, holder) and now < lease.expires_at:
        return None
    fencing: int = lease.fencing + (lease.holder != holder)
    taken = update(leases).where(leases.c.name == name)
    connection.execute(taken.values(holder=holder, fencing=fencing, expires_at=expires_at))
    return fencing
