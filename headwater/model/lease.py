"""Leader election among controllers: candidates, and the fencing token of the holder.

The fencing token is held in a context variable, like the actor of the audit log. Writes to the database inside the
context are rejected when the lease has a newer token. Code in thread pools must use `fenced_by`.
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
        holder: A random id that the process generates at each start. It is never written to a file.
        lock: The name of a file lock that the process holds; empty when it holds none. Only one live process can hold
            it, so a lease whose holder gave the same name is free: that holder has ended.
        current_failure: What currently fails in the process, as a sentence; empty when everything works.
    """

    holder: str
    lock: str = ""
    current_failure: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """A stored lease.

    Attributes:
        holder: The holder; None after a release. The other attributes are those of the last holder.
        fencing_token: The fencing token. Each change of the holder raises it.
    """

    holder: str | None
    fencing_token: int
    expires_at: datetime
    lock: str = ""
    current_failure: str = ""


def claim_lease(stored: Lease | None, candidate: Candidate, now: datetime, ttl: timedelta) -> Lease:
    """Return the lease after a candidate has requested it.

    The candidate has the lease if it is the holder then.
    """
    lease = stored or Lease(None, 0, now)
    if not _is_free(lease, candidate, now):
        return replace(lease, expires_at=min(lease.expires_at, now + ttl))
    fencing_token = lease.fencing_token + (lease.holder != candidate.holder)
    return Lease(candidate.holder, fencing_token, now + ttl, candidate.lock, candidate.current_failure)


def _is_free(lease: Lease, candidate: Candidate, now: datetime) -> bool:
    ended = bool(candidate.lock) and lease.lock == candidate.lock
    return lease.holder in (None, candidate.holder) or ended or now >= lease.expires_at


@dataclass(frozen=True, slots=True)
class Leader:
    """The current holder of a lease.

    `current_failure` says what currently fails in it; empty when everything works.
    """

    holder: str
    current_failure: str = ""


@dataclass(frozen=True, slots=True)
class Fence:
    """The fencing token of a leader: the name of the lease, and the number of the token."""

    lease: str
    fencing_token: int


_fence: ContextVar[Fence | None] = ContextVar("fence", default=None)


def current_fence() -> Fence | None:
    """Return the fencing token of this context.

    Returns None for writes that need no lease, such as those of the API.
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
