"""OwnerLimiter in the sandbox: one owner's scripts never keep all others waiting."""

import threading

import anyio
from anyio import to_thread
from anyio.from_thread import BlockingPortal

from headwater.api.concurrency import MAX_CONCURRENT_CHECKS, MAX_CONCURRENT_CHECKS_PER_OWNER, OwnerLimiter


class Slow:
    """Work that goes on until the test is over."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.over = threading.Event()

    def __call__(self) -> str:
        self.started.release()
        self.over.wait(60)
        return "done"


async def owners_share(turns: OwnerLimiter) -> None:
    slow, others = Slow(), Slow()
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(turns.run, "alice", slow)
            for _ in range(MAX_CONCURRENT_CHECKS_PER_OWNER):
                await to_thread.run_sync(slow.started.acquire)
            assert await turns.run("bob", lambda: "bob's") == "bob's"
            assert not slow.started.acquire(blocking=False)
            for owner in ("bob", "carol"):
                tasks.start_soon(turns.run, owner, others)
            for _ in range(MAX_CONCURRENT_CHECKS - MAX_CONCURRENT_CHECKS_PER_OWNER):
                await to_thread.run_sync(others.started.acquire)
            slow.over.set()
            others.over.set()
    finally:
        slow.over.set()
        others.over.set()


def test_one_owner_has_a_share_of_them(portal: BlockingPortal) -> None:
    turns = OwnerLimiter(MAX_CONCURRENT_CHECKS, MAX_CONCURRENT_CHECKS_PER_OWNER)
    portal.call(owners_share, turns)
    assert not turns._owners
