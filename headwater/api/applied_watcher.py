"""Waits until the workers of pipelines have read a version of a set."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import anyio

from headwater.api.shared_poll import SharedPoll
from headwater.errors import DatabaseUnavailable, RateLimited
from headwater.model import rollout
from headwater.services.applied_versions import AppliedState, WatchedSet

POLL_S = 0.1
MAX_WAITS_PER_OWNER = 100
"""All waiting requests share each poll, which takes longer the more sets they wait for."""
RETRY_AFTER_S = 1


class AppliedWatcher(SharedPoll[WatchedSet, AppliedState]):
    """Waits until the workers that use a set have read a version of it."""

    def __init__(self, read: Callable[[Collection[WatchedSet]], Mapping[WatchedSet, AppliedState]]) -> None:
        super().__init__("watching applied versions", read, _unreadable, POLL_S)
        self._waits: Counter[str] = Counter()
        """The number of waiting requests of each owner."""

    async def wait_for(self, watched: WatchedSet, version: int, wait_s: float) -> AppliedState:
        """Wait until a version is applied, for at most `wait_s` seconds, and return the last state.

        The first state is always awaited, so that there is one to return. Raises DatabaseUnavailable, RedisUnavailable,
        NotFound when the configuration is not deployed any more, and RateLimited when MAX_WAITS_PER_OWNER requests of
        the owner wait already.
        """
        deadline = anyio.current_time() + wait_s
        with self._counted(watched.owner):
            async with self.awaiting(watched) as next_state:
                state = _existing(await next_state())
                with anyio.CancelScope(deadline=deadline):
                    while not state.has_applied(version):
                        state = _existing(await next_state())
                return state

    @contextmanager
    def _counted(self, owner: str) -> Iterator[None]:
        """Count a waiting request of an owner. Raises RateLimited."""
        if self._waits[owner] >= MAX_WAITS_PER_OWNER:
            detail = (
                f"{MAX_WAITS_PER_OWNER} of your requests wait for applied versions already. Send this one again when "
                "some of them have ended."
            )
            raise RateLimited(detail, RETRY_AFTER_S)
        self._waits[owner] += 1
        try:
            yield
        finally:
            self._waits[owner] -= 1
            self._waits += Counter()  # the sum of two Counters has no members whose count is 0


def _existing(state: AppliedState | None) -> AppliedState:
    if state is None:
        raise rollout.deployment_not_found()
    return state


def _unreadable() -> DatabaseUnavailable:
    return DatabaseUnavailable("The versions that workers have read can't be compared. Send the same request again.")
