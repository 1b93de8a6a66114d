"""Limits how many blocking jobs run at the same time, in total and for each owner."""

import math
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread

from headwater.errors import Overloaded

MAX_CONCURRENT_COMPILES = 4
"""A request that compiles scripts runs a V8 process of about 60 MB."""
MAX_CONCURRENT_COMPILES_PER_OWNER = 2
"""A script that uses up its time limit occupies its slot for seconds; one owner must not block all others."""
MAX_CONCURRENT_COUNTS = 2
"""A request that counts dead letters reads their topic, for seconds when there are millions."""
MAX_CONCURRENT_COUNTS_PER_OWNER = 1
MAX_CONCURRENT_DIFFS = 2
"""A comparison of large scripts computes for seconds on a thread, and holds the GIL that the event loop needs."""
MAX_CONCURRENT_DIFFS_PER_OWNER = 1
MAX_CONCURRENT_UPLOADS = 32
MAX_CONCURRENT_UPLOADS_PER_OWNER = 8
"""The documentation recommends five concurrent uploads. Slow clients must not block other owners."""
MAX_CONCURRENT_TRIALS = 4
"""A trial runs one or two V8 processes of about 60 MB, and keeps about 100 MB of records at most."""
MAX_CONCURRENT_TRIALS_PER_OWNER = 2

MAX_CONCURRENT_RECORD_READS = 4
"""A request that reads records keeps up to 32 MB of them, and waits up to 15 s for Kafka."""
MAX_CONCURRENT_RECORD_READS_PER_OWNER = 2
MAX_WAIT_FOR_READS_S = 10.0
"""How long a request that reads or counts records waits until the limits allow it."""

T = TypeVar("T")


class OwnerLimiter:
    """Limits how many jobs run on threads at the same time.

    At most `total` jobs run, and at most `per_owner` jobs of one owner. A further job waits for `max_wait_s` seconds at
    most.
    """

    def __init__(self, total: int, per_owner: int, max_wait_s: float = math.inf) -> None:
        self._total_limiter = anyio.CapacityLimiter(total)
        self._per_owner = per_owner
        self._max_wait_s = max_wait_s
        self._limiters: WeakValueDictionary[str, anyio.CapacityLimiter] = WeakValueDictionary()

    async def run(self, owner: str, job: Callable[[], T]) -> T:
        """Run a blocking job on a thread as soon as both limits allow it.

        Raises Overloaded when they do not allow it within `max_wait_s` seconds.
        """
        limiter = self._limiters.get(owner)
        if limiter is None:
            limiter = self._limiters[owner] = anyio.CapacityLimiter(self._per_owner)
        async with AsyncExitStack() as held:
            with anyio.move_on_after(self._max_wait_s) as wait:
                await held.enter_async_context(limiter)
                await held.enter_async_context(self._total_limiter)
            if wait.cancelled_caught:
                raise Overloaded(self._max_wait_s)
            # The default limiter of threads would let the job wait for other kinds of jobs.
            return await to_thread.run_sync(job, limiter=anyio.CapacityLimiter(1))
