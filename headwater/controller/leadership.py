"""This controller's leadership: whether it leads, for how long it may still act, and its fencing number.

The database's clock decides when a lease has expired. This process measures on its own monotonic clock, from before
the request, so it stops early and never late, however the two clocks are set.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from headwater.errors import LeaseLost, StoreUnavailable
from headwater.model.lease import Candidate, Fence, fenced_by
from headwater.stores.base import Leases

log = structlog.get_logger(__name__)

LEASE = "controller"
LEASE_TTL_S = 10.0
ACT_WITHIN_S = 3.0
"""A leader removes something outside the database only while at least so much of its lease is left."""


class Leadership:
    """Thread-safe for `leads`, `confirm` and `acting`; the other methods belong to one thread.

    lock: a lock of this machine's kernel that this process alone can hold (see model.lease.Candidate). clock:
    monotonic seconds that go on while the machine sleeps.
    """

    def __init__(self, leases: Leases, lock: str, clock: Callable[[], float]) -> None:
        self._leases = leases
        self._holder = secrets.token_hex(16)
        self._lock = lock
        self._clock = clock
        self._fence: Fence | None = None
        self._until = float("-inf")

    @property
    def leads(self) -> bool:
        """Whether this process leads now, by its own clock."""
        return self._fence is not None and self._clock() < self._until

    @property
    def remaining_s(self) -> float:
        """How long this process leads from now on, unless it renews the lease."""
        return self._until - self._clock()

    def renew(self, failing: str = "") -> None:
        """Acquire or renew the lease. Raises LeaseLost when another process has taken it since the last call.

        failing: what of this process fails at the moment, for others to see.
        """
        until = self._clock() + LEASE_TTL_S
        candidate = Candidate(self._holder, self._lock, failing)
        number = self._leases.acquire(LEASE, candidate, LEASE_TTL_S)
        if self._fence is not None and number != self._fence.number:
            self._until = float("-inf")
            raise LeaseLost(LEASE)
        if number is not None:
            if self._fence is None:
                log.info("this controller leads", fencing=number)
            self._fence, self._until = Fence(LEASE, number), until

    def confirm(self) -> None:
        """Return when this process still leads; called right before something outside the database is removed.

        Raises LeaseLost, and StoreUnavailable, also while too little of the lease is left.
        """
        if self._fence is None:
            raise LeaseLost(LEASE)
        self._leases.check(self._fence)
        if self.remaining_s < ACT_WITHIN_S:
            raise StoreUnavailable("The controller could not renew its lease in time. It goes on once it has.")

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Fence the writes to the database in the block: they raise LeaseLost when another process leads."""
        if self._fence is None:
            raise LeaseLost(LEASE)
        with fenced_by(self._fence):
            yield

    def release(self) -> None:
        """Give the lease up, so that the next controller need not wait."""
        if self._fence is not None:
            self._leases.release(LEASE, self._holder)
            self._fence, self._until = None, float("-inf")
