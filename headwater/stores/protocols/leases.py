"""The protocol of the leases by which one of several controllers becomes the leader."""

from typing import Protocol

from headwater.model.lease import Candidate, Fence, Leader


class Leases(Protocol):
    """Leases, by which one of several controllers is the leader.

    Only the database's clock decides when a lease expires. Inside `model.lease.fenced_by`, a write of any SQL store
    raises LeaseLost and changes nothing when the lease has another fencing token. The check and the write are one
    transaction.
    """

    def acquire(self, name: str, candidate: Candidate, ttl_s: float) -> int | None:
        """Acquire a lease, or renew it, for `ttl_s` from now.

        Return the fencing token, which rises with each change of the holder. Return None while another live process
        holds the lease. A lease is free when it was released or has expired. It is also free when the candidate holds
        the file lock (see model.lease) that the recorded holder held: that holder has ended then. A lease that would
        expire later than `ttl_s` from now is shortened to `ttl_s`, because it was written before the clock was set
        back.
        """

    def release(self, name: str, holder: str) -> None:
        """Release the lease. Do nothing when `holder` does not hold it."""

    def leader(self, name: str) -> Leader | None:
        """Return the present holder of the lease; None when nobody holds it."""

    def check(self, fence: Fence) -> None:
        """Raise LeaseLost when the lease has another fencing token than the fence."""
