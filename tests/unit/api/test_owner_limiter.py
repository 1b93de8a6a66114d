"""OwnerLimiter: the scripts of one owner never block all other owners."""

import threading

import anyio
import pytest
from anyio import to_thread
from anyio.from_thread import BlockingPortal

from headwater.api.owner_limiter import MAX_CONCURRENT_COMPILES, MAX_CONCURRENT_COMPILES_PER_OWNER, OwnerLimiter
from headwater.errors import Overloaded


class Slow:
    """Work that ends when the test ends."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.over = threading.Event()

    def __call__(self) -> str:
        self.started.release()
        self.over.wait(60)
        return "done"


async def owners_share(limiter: OwnerLimiter) -> None:
    slow, others = Slow(), Slow()
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(limiter.run, "alice", slow)
            for _ in range(MAX_CONCURRENT_COMPILES_PER_OWNER):
                await to_thread.run_sync(slow.started.acquire)
            assert await limiter.run("bob", lambda: "bob's") == "bob's"
            assert not slow.started.acquire(blocking=False)
            for owner in ("bob", "carol"):
                tasks.start_soon(limiter.run, owner, others)
            for _ in range(MAX_CONCURRENT_COMPILES - MAX_CONCURRENT_COMPILES_PER_OWNER):
                await to_thread.run_sync(others.started.acquire)
            slow.over.set()
            others.over.set()
    finally:
        slow.over.set()
        others.over.set()


def test_one_owner_gets_only_a_share_of_the_threads(portal: BlockingPortal) -> None:
    limiter = OwnerLimiter(MAX_CONCURRENT_COMPILES, MAX_CONCURRENT_COMPILES_PER_OWNER)
    portal.call(owners_share, limiter)
    assert not limiter._limiters


async def owners_wait(limiter: OwnerLimiter) -> None:
    slow = Slow()
    try:
        async with anyio.create_task_group() as tasks:
            for owner in ("alice", "bob"):
                tasks.start_soon(limiter.run, owner, slow)
                await to_thread.run_sync(slow.started.acquire)
            for owner in ("alice", "carol"):
                with pytest.raises(Overloaded):
                    await limiter.run(owner, slow)
            slow.over.set()
        for owner in ("alice", "carol"):
            assert await limiter.run(owner, slow) == "done"
    finally:
        slow.over.set()


def test_a_job_waits_for_a_limited_time(portal: BlockingPortal) -> None:
    """Alice waits for her own job, and Carol for the jobs of Alice and Bob."""
    limiter = OwnerLimiter(total=2, per_owner=1, max_wait_s=0.1)
    portal.call(owners_wait, limiter)
    assert not limiter._limiters
