"""Leadership among several controllers: who asks for a lease, and the fencing number that its holder writes with.

The fence of a leader travels in a context variable, as the actor of the audit log does: the leader sets it once around
what it does, and every write to the database inside that context is refused when the lease has a newer number. Threads
of a pool start without it: what runs there says `fenced_by` itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that asks for a lease.

    Attributes:
        holder: An identity that is made at random at each start of the process and is never written to a file.
        lock: Names a lock of this machine's kernel that the process holds, or is empty. No two live processes ever
            give the same name, so a lease whose holder gave it is free: that holder has ended.
        failing: What of the process fails at the moment, as a sentence; empty while all of it works.
    """

    holder: str
    lock: str = ""
    failing: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """A stored lease. holder is None once it was released; the other fields are those of the last holder."""

    holder: str | None
    fencing: int
    expires_at: datetime
    lock: str = ""
    failing: str = ""


def claim_lease(stored: Lease | None, candidate: Candidate, now: datetime, ttl: timedelta) -> Lease:
    """The lease after a candidate asked for it; the candidate has it when it is the holder."""
    lease = stored or Lease(None, 0, now)
    if not _is_free(lease, candidate, now):
        return replace(lease, expires_at=min(lease.expires_at, now + ttl))
    fencing = lease.fencing + (lease.holder != candidate.holder)
    return Lease(candidate.holder, fencing, now + ttl, candidate.lock, candidate.failing)


def _is_free(lease: Lease, candidate: Candidate, now: datetime) -> bool:
    ended = bool(candidate.lock) and lease.lock == candidate.lock
    return lease.holder in (None, candidate.holder) or ended or now >= lease.expires_at


@dataclass(frozen=True, slots=True)
class Leader:
    """The present holder of a lease, as others see it: its identity, and what of it fails."""

    holder: str
    failing: str = ""


@dataclass(frozen=True, slots=True)
class Fence:
    """The fencing number under which a leader acts; each change of a lease's holder raises the number."""

    lease: str
    number: int


_fence: ContextVar[Fence | None] = ContextVar("fence", default=None)


def current_fence() -> Fence | None:
    """The fence of this context; None for writes that need no lease, such as those of the API."""
    return _fence.get()


@contextmanager
def fenced_by(fence: Fence) -> Iterator[None]:
    """Refuse every write inside the block once the lease has a newer fencing number."""
    token = _fence.set(fence)
    try:
        yield
    finally:
        _fence.reset(token)
