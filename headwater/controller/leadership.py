"""This controller's leadership: whether it leads, for how long, and its fencing token.

The database's clock decides when a lease has expired. This process reads its own monotonic clock before it sends the
request for the lease. So by its own clock, the lease expires earlier than in the database and never later.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from headwater.errors import DatabaseUnavailable, LeaseLost
from headwater.model.lease import Candidate, Fence, fenced_by
from headwater.stores.protocols.leases import Leases

log = structlog.get_logger(__name__)

CONTROLLER_LEASE = "controller"
LEASE_TTL_S = 10.0
MIN_REMAINING_S = 3.0
"""A leader removes something outside the database only while its lease is valid for at least this time."""


class Leadership:
    """The lease of this controller.

    `leads`, `require_lease` and `fenced_writes` are thread-safe; the other methods are not.

    Args:
        lock: The name of a file lock that this process holds (see model.lease.Candidate). Only one process can hold it.
            So a lease that another process acquired with the same file lock belongs to a process that has ended, and
            is free at once.
        clock: Returns monotonic seconds that also count while the machine sleeps.
    """

    def __init__(self, leases: Leases, lock: str, clock: Callable[[], float]) -> None:
        self._leases = leases
        self._holder = secrets.token_hex(16)
        self._lock = lock
        self._clock = clock
        self._fence: Fence | None = None
        self._leads_until = float("-inf")

    @property
    def leads(self) -> bool:
        """Whether this process currently leads, by its own clock."""
        return self._fence is not None and self._clock() < self._leads_until

    @property
    def remaining_s(self) -> float:
        """For how long this process still leads if it does not renew the lease."""
        return self._leads_until - self._clock()

    def renew(self, failure: str = "") -> None:
        """Acquire or renew the lease.

        Raises LeaseLost when another process has acquired it since the last call.

        Args:
            failure: What currently fails in this process; other processes read it in the lease.
        """
        leads_until = self._clock() + LEASE_TTL_S
        candidate = Candidate(self._holder, self._lock, failure)
        fencing_token = self._leases.acquire(CONTROLLER_LEASE, candidate, LEASE_TTL_S)
        if self._fence is not None and fencing_token != self._fence.fencing_token:
            self._leads_until = float("-inf")
            raise LeaseLost(CONTROLLER_LEASE)
        if fencing_token is not None:
            if self._fence is None:
                log.info("this controller leads", fencing_token=fencing_token)
            self._fence, self._leads_until = Fence(CONTROLLER_LEASE, fencing_token), leads_until

    def require_lease(self) -> None:
        """Raise LeaseLost unless this process still leads.

        This is called directly before something outside the database is removed. Raises DatabaseUnavailable when the
        database is unavailable, or when the lease expires too soon.
        """
        if self._fence is None:
            raise LeaseLost(CONTROLLER_LEASE)
        self._leases.check(self._fence)
        if self.remaining_s < MIN_REMAINING_S:
            raise DatabaseUnavailable(
                "The controller could not renew its lease in time. It continues after the next renewal."
            )

    @contextmanager
    def fenced_writes(self) -> Iterator[None]:
        """Fence the writes to the database in the block.

        A write raises LeaseLost when another process leads.
        """
        if self._fence is None:
            raise LeaseLost(CONTROLLER_LEASE)
        with fenced_by(self._fence):
            yield

    def release(self) -> None:
        """Release the lease, so that the next controller need not wait until it expires."""
        if self._fence is not None:
            self._leases.release(CONTROLLER_LEASE, self._holder)
            self._fence, self._leads_until = None, float("-inf")
