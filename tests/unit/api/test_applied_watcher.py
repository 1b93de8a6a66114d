"""AppliedWatcher: how long requests wait, and how many."""

import time
from collections.abc import Collection, Mapping
from functools import partial

import anyio
import pytest
from anyio.from_thread import BlockingPortal

from headwater.api.applied_watcher import MAX_WAITS_PER_OWNER, AppliedWatcher
from headwater.errors import RateLimited
from headwater.model.value_sets import filter_set_id
from headwater.services.applied_versions import AppliedState, WatchedSet

ALICES, BOBS = (WatchedSet(owner, filter_set_id(owner, "t"), owner) for owner in ("alice", "bob"))


class Reads:
    """Reads of sets that have no writes."""

    def __init__(self, duration_s: float) -> None:
        self.count = 0
        self._duration_s = duration_s

    def __call__(self, watched: Collection[WatchedSet]) -> Mapping[WatchedSet, AppliedState]:
        self.count += 1
        time.sleep(self._duration_s)
        return dict.fromkeys(watched, AppliedState(0, ()))


async def wait_during_a_slow_read(reads: Reads) -> AppliedState:
    watcher = AppliedWatcher(reads)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        state = await watcher.wait_for(ALICES, 1, wait_s=0.3)
        tasks.cancel_scope.cancel()
    return state


def test_the_time_of_the_first_read_counts(portal: BlockingPortal) -> None:
    reads = Reads(duration_s=0.5)
    assert not portal.call(wait_during_a_slow_read, reads).has_applied(1)
    assert reads.count == 1


async def wait_many_times(watcher: AppliedWatcher) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        async with anyio.create_task_group() as waits:
            for _ in range(MAX_WAITS_PER_OWNER):
                waits.start_soon(partial(watcher.wait_for, ALICES, 1, wait_s=30))
            await anyio.sleep(0.2)
            with pytest.raises(RateLimited):
                await watcher.wait_for(ALICES, 0, wait_s=0)
            assert (await watcher.wait_for(BOBS, 0, wait_s=0)).has_applied(0)
            waits.cancel_scope.cancel()
        assert (await watcher.wait_for(ALICES, 0, wait_s=0)).has_applied(0)
        tasks.cancel_scope.cancel()


def test_the_waits_of_an_owner_are_limited(portal: BlockingPortal) -> None:
    watcher = AppliedWatcher(Reads(duration_s=0))
    portal.call(wait_many_times, watcher)
    assert not watcher._waits
