"""Checks the fencing number of a leader in the transaction in which the leader writes."""

from sqlalchemy import Connection, select

from headwater.errors import LeaseLost
from headwater.model.lease import Fence
from headwater.stores.sql.tables import leases


def check(connection: Connection, fence: Fence) -> None:
    """Raise LeaseLost when the lease has another number.

    Nobody can acquire the lease until the transaction ends.
    """
    this = select(leases.c.fencing).where(leases.c.name == fence.lease)
    if connection.execute(this.with_for_update(read=True)).scalar_one_or_none() != fence.fencing_token:
        raise LeaseLost(fence.lease)
