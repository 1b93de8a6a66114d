"""One poll of a state that many requests wait for."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import anyio
from anyio import to_thread

from headwater.errors import ApiStopping, HeadwaterError, Unavailable
from headwater.loop_health import LoopHealth

Key = TypeVar("Key", bound=Hashable)
State = TypeVar("State")


class SharedPoll(Generic[Key, State]):
    """Polls the states that requests wait for.

    Waiting requests hold no thread and share one read. The poll reads the states of all awaited keys every `every_s`
    seconds, and stops while no request waits.

    Args:
        name: What the loop does, which `/readyz` and the log show.
        read: Reads the states of keys. Keys without a state are left out. It may block and raises Unavailable.
        unexpected_error: Returns the error for waiting requests when `read` raises anything but Unavailable.
        every_s: The pause between two reads.

    Attributes:
        poll_health: The health of the loop.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Collection[Key]], Mapping[Key, State]],
        unexpected_error: Callable[[], HeadwaterError],
        every_s: float,
    ) -> None:
        self.poll_health = LoopHealth(name)
        self._read = read
        self._unexpected_error = unexpected_error
        self._every_s = every_s
        self._thread_limiter = anyio.CapacityLimiter(1)
        self._awaited: Counter[Key] = Counter()
        self._polls_started = 0
        self._polls_finished = 0
        self._latest: dict[Key, State | None] = {}
        self._error: HeadwaterError | None = None
        self._has_waiters = anyio.Event()
        self._poll_finished = anyio.Event()
        self._is_stopping = False

    def stop(self) -> None:
        """Let the requests that wait now, and later ones, fail with ApiStopping."""
        self._is_stopping = True
        self._poll_finished.set()

    async def run(self) -> None:
        """Poll until the task is cancelled.

        After an unexpected error, polling is retried even when no request waits any more, so that readiness can
        recover.
        """
        while True:
            if not self.poll_health.error:
                await self._has_waiters.wait()
            self._has_waiters = anyio.Event()
            await self._poll_while_awaited()

    async def _poll_while_awaited(self) -> None:
        """Poll at least once, and then for as long as a request waits."""
        while True:
            delay_s = self._every_s
            try:
                await self._poll_once()
                self.poll_health.on_success()
            except Exception as error:  # noqa: BLE001  # this is the only poller: without it, requests wait in vain
                delay_s = self.poll_health.on_error(error)
            await anyio.sleep(delay_s)
            if not self._awaited:
                return

    async def _poll_once(self) -> None:
        self._polls_started += 1
        awaited = frozenset(self._awaited)
        try:
            states = await to_thread.run_sync(self._read, awaited, limiter=self._thread_limiter)
            self._latest = {key: states.get(key) for key in awaited}
            self._error = None
        except Unavailable as error:
            self._error = error
        except Exception:
            self._error = self._unexpected_error()
            raise
        finally:
            self._polls_finished = self._polls_started
            self._poll_finished.set()
            self._poll_finished = anyio.Event()

    @asynccontextmanager
    async def awaiting(self, key: Key) -> AsyncIterator[Callable[[], Awaitable[State | None]]]:
        """Poll a key within the context, and yield a function that returns its next state.

        The state is None when the key has none. Only polls that start after this call count, so that every write before
        the call is visible. The function raises the error of the poll.
        """
        polls_before = self._polls_started
        self._awaited[key] += 1

        async def next_state() -> State | None:
            return await self._next_state(key, polls_before)

        try:
            yield next_state
        finally:
            self._awaited[key] -= 1
            self._awaited += Counter()  # the sum of two Counters has no members whose count is 0

    async def _next_state(self, key: Key, polls_before: int) -> State | None:
        """Wait until the next poll ends, and return its state of a key.

        The polls with the numbers up to `polls_before` are ignored.
        """
        while True:
            if self._is_stopping:
                raise ApiStopping
            finished = self._poll_finished
            self._has_waiters.set()
            await finished.wait()
            if self._is_stopping or self._polls_finished <= polls_before:
                continue
            if self._error is not None:
                raise self._error
            return self._latest[key]
