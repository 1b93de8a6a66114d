"""Checks the fencing token of a leader in the transaction in which the leader writes."""

from sqlalchemy import Connection, select

from headwater.errors import LeaseLost
from headwater.model.lease import Fence
from headwater.stores.sql.tables import leases


def check_fence(connection: Connection, fence: Fence) -> None:
    """Raise LeaseLost when the lease has another fencing token.

    Nobody can acquire the lease until the transaction ends.
    """
    locked = select(leases.c.fencing_token).where(leases.c.name == fence.lease).with_for_update(read=True)
    if connection.execute(locked).scalar_one_or_none() != fence.fencing_token:
        raise LeaseLost(fence.lease)
