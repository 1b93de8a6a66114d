"""Checks a leader's fencing number inside the transaction that writes what the leader saw."""

from sqlalchemy import Connection, select

from headwater.errors import LeaseLost
from headwater.model.lease import Fence
from headwater.stores.sql.tables import leases


def check(connection: Connection, fence: Fence) -> None:
    """Raise LeaseLost when the lease has another number. Until the transaction ends, nobody else takes the lease."""
    this = select(leases.c.fencing).where(leases.c.name == fence.lease)
    if connection.execute(this.with_for_update(read=True)).scalar_one_or_none() != fence.number:
        raise LeaseLost(fence.lease)
