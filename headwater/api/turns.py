"""Turns for work that holds much for long, with a share for each owner: trials of scripts, uploads of values."""

from collections.abc import Callable
from typing import Annotated, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread
from fastapi import Depends, Request

MAX_AT_ONCE = 4
"""Each request that compiles scripts holds a V8 process of some 60 MB while it does."""
MAX_PER_OWNER = 2
"""Scripts that use up their time hold their turns for seconds; one owner's must not keep all others waiting."""

T = TypeVar("T")


class Turns:
    """Hands out turns; who gets none waits."""

    def __init__(self, at_once: int, per_owner: int) -> None:
        self._all = anyio.CapacityLimiter(at_once)
        self._per_owner = per_owner
        self._owners: WeakValueDictionary[str, anyio.CapacityLimiter] = WeakValueDictionary()

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Run work, which may block, on a thread when it is the owner's turn."""
        own = self._owners.get(owner)
        if own is None:
            own = self._owners[owner] = anyio.CapacityLimiter(self._per_owner)
        async with own:
            return await to_thread.run_sync(work, limiter=self._all)


async def _turns(request: Request) -> Turns:
    turns: Turns = request.app.state.turns
    return turns


InTurn = Annotated[Turns, Depends(_turns)]
"""The turns in the sandbox, as a parameter of a route."""
