"""Waiting for the controller without holding a thread."""

import time
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread

from headwater.api.services import Services
from headwater.errors import DeployPending
from headwater.model.deployment import Deployment

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


async def roll_out(given: Services, owner: str, config_id: str) -> Deployment:
    """Deploy the newest revision, and return when it runs. Raises DeployFailed, DeployPending, Conflict, NotFound."""
    started = await to_thread.run_sync(given.deployments.start, owner, config_id)
    pending = "The deployment still goes on. Ask again, or read GET …/deploy."
    return await poll(lambda: given.deployments.outcome(started), given.deploy_timeout_s, pending)
