"""Leader election among controllers, by a lease in the database with a fencing token.

A controller is a candidate for the lease, and the holder of the lease is the leader. A context variable has the
leader's fencing token. The database rejects writes inside this context when the lease has a newer token, which means
that another controller has become the leader. Code in thread pools must use `fenced_by`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that requests a lease.

    Attributes:
        holder: A random id that the process generates at each start. No process takes over the id of an earlier one.
        lock: The name of a file lock that the process holds; empty when the process holds none. Only one live process
            can hold a lock, so every other process that has held this lock has ended. A stored lease with the same lock
            is therefore free.
        current_failure: What currently fails in the process, as `loop: error`; empty when everything works.
    """

    holder: str
    lock: str = ""
    current_failure: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """A stored lease.

    Attributes:
        holder: The holder; None after a release.
        fencing_token: A number that each change of the holder raises.
        expires_at: When the lease becomes free unless the holder renews it.
        lock: The `lock` of the last holder.
        current_failure: The `current_failure` of the last holder.
    """

    holder: str | None
    fencing_token: int
    expires_at: datetime
    lock: str = ""
    current_failure: str = ""


def claim_lease(stored: Lease | None, candidate: Candidate, now: datetime, ttl: timedelta) -> Lease:
    """Return the lease after a candidate has requested it.

    The request has succeeded when the candidate is the holder of the returned lease.
    """
    lease = stored or Lease(None, 0, now)
    if not _is_available(lease, candidate, now):
        # A lease that lasts longer than the ttl was written before the clock was set back. Its end is brought forward.
        return replace(lease, expires_at=min(lease.expires_at, now + ttl))
    fencing_token = lease.fencing_token + (lease.holder != candidate.holder)
    return Lease(candidate.holder, fencing_token, now + ttl, candidate.lock, candidate.current_failure)


def _is_available(lease: Lease, candidate: Candidate, now: datetime) -> bool:
    has_holder_ended = bool(candidate.lock) and lease.lock == candidate.lock
    return lease.holder in (None, candidate.holder) or has_holder_ended or now >= lease.expires_at


@dataclass(frozen=True, slots=True)
class Leader:
    """The current holder of a lease. See Candidate for the attributes."""

    holder: str
    current_failure: str = ""


@dataclass(frozen=True, slots=True)
class Fence:
    """The fencing token of a leader, with the name of the lease."""

    lease: str
    fencing_token: int


_fence: ContextVar[Fence | None] = ContextVar("fence", default=None)


def current_fence() -> Fence | None:
    """Return the fencing token of this context.

    Returns None for writes that need no lease, such as writes of the API.
    """
    return _fence.get()


@contextmanager
def fenced_by(fence: Fence) -> Iterator[None]:
    """Reject database writes inside the block when the lease has a newer fencing token."""
    token = _fence.set(fence)
    try:
        yield
    finally:
        _fence.reset(token)
