"""Turns in the sandbox: each request that compiles scripts holds a V8 process of some 60 MB while it does."""

from collections.abc import Callable
from typing import Annotated, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread
from fastapi import Depends, Request

MAX_AT_ONCE = 4
MAX_PER_OWNER = 2
"""Scripts that use up their time hold their turns for seconds; one owner's must not keep all others waiting."""

T = TypeVar("T")


class Turns:
    """Hands out turns; who gets none waits."""

    def __init__(self) -> None:
        self._all = anyio.CapacityLimiter(MAX_AT_ONCE)
        self._owners: WeakValueDictionary[str, anyio.CapacityLimiter] = WeakValueDictionary()

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Run work, which may block, on a thread when it is the owner's turn."""
        own = self._owners.get(owner)
        if own is None:
            own = self._owners[owner] = anyio.CapacityLimiter(MAX_PER_OWNER)
        async with own:
            return await to_thread.run_sync(work, limiter=self._all)


async def _turns(request: Request) -> Turns:
    turns: Turns = request.app.state.turns
    return turns


InTurn = Annotated[Turns, Depends(_turns)]
"""The turns, as a parameter of a route."""
