"""Leases in memory."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from headwater.errors import LeaseLost
from headwater.model.lease import Candidate, Fence, Leader, Lease, claim_lease, current_fence


def _utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryLeases:
    """Implements Leases in memory. The clock `now` decides when a lease has expired."""

    def __init__(self, now: Callable[[], datetime] = _utc_now) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._leases: dict[str, Lease] = {}

    def acquire(self, name: str, candidate: Candidate, ttl_s: float) -> int | None:
        with self._lock:
            lease = claim_lease(self._leases.get(name), candidate, self._now(), timedelta(seconds=ttl_s))
            self._leases[name] = lease
            return lease.fencing_token if lease.holder == candidate.holder else None

    def release(self, name: str, holder: str) -> None:
        with self._lock:
            lease = self._leases.get(name)
            if lease is not None and lease.holder == holder:
                self._leases[name] = replace(lease, holder=None)

    def leader(self, name: str) -> Leader | None:
        with self._lock:
            lease = self._leases.get(name)
            if lease is None or lease.holder is None or lease.expires_at <= self._now():
                return None
            return Leader(lease.holder, lease.current_failure)

    def check(self, fence: Fence) -> None:
        with self._lock:
            lease = self._leases.get(fence.lease)
            if lease is None or lease.fencing_token != fence.fencing_token:
                raise LeaseLost(fence.lease)

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Prevent changes of leases inside the block.

        Raises LeaseLost when the fencing number of the current context is outdated.
        """
        with self._lock:
            if (fence := current_fence()) is not None:
                self.check(fence)
            yield
