"""Waits until the workers of pipelines have read a version of a set."""

from collections.abc import Callable, Collection, Mapping

import anyio

from headwater.api.shared_poll import SharedPoll
from headwater.errors import DatabaseUnavailable, NotFound
from headwater.services.applied_versions import NOT_DEPLOYED, AppliedState, WatchedSet

POLL_S = 0.1


class AppliedWatcher(SharedPoll[WatchedSet, AppliedState]):
    """Waits until the workers that use a set have read a version of it."""

    def __init__(self, read: Callable[[Collection[WatchedSet]], Mapping[WatchedSet, AppliedState]]) -> None:
        super().__init__("watching applied versions", read, _unreadable, POLL_S)

    async def wait_for(self, watched: WatchedSet, version: int, wait_s: float) -> AppliedState:
        """Wait until a version is applied, for at most `wait_s` seconds, and return the last state.

        Raises DatabaseUnavailable, RedisUnavailable, and NotFound when the configuration is not deployed any more.
        """
        async with self.awaiting(watched) as next_state:
            state = _existing(await next_state())
            with anyio.move_on_after(wait_s):
                while not state.has_applied(version):
                    state = _existing(await next_state())
            return state


def _existing(state: AppliedState | None) -> AppliedState:
    if state is None:
        raise NotFound(NOT_DEPLOYED)
    return state


def _unreadable() -> DatabaseUnavailable:
    return DatabaseUnavailable("The versions that workers have read can't be compared. Send the same request again.")
