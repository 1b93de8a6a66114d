"""Waiting for the controller without holding a thread."""

import time
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread

from headwater.errors import DeployPending

POLL_S = 0.1

T = TypeVar("T")


async def poll(look: Callable[[], T | None], within_s: float, pending: str) -> T:
    """Call `look`, which may block, until it returns something. Raises DeployPending(pending) after `within_s`."""
    deadline = time.monotonic() + within_s
    while (seen := await to_thread.run_sync(look)) is None:
        if time.monotonic() >= deadline:
            raise DeployPending(pending)
        await anyio.sleep(POLL_S)
    return seen
