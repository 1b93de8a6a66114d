"""Deploying from a route: what deploy itself and the routes that deploy by themselves share."""

from functools import partial

import anyio
from anyio import to_thread

from headwater.api.services import Services
from headwater.api.waiting import Watcher
from headwater.errors import TeardownGoesOn
from headwater.model.deployment import Deployment
from headwater.services.deployments import is_up


async def roll_out(given: Services, watcher: Watcher, owner: str, config_id: str) -> Deployment:
    """Deploy the newest revision, and return when it runs. A teardown that goes on is waited for first.

    Raises NotFound, DeployFailed, DeployPending, Conflict when it is torn down meanwhile.
    """
    deadline = anyio.current_time() + given.deploy_timeout_s
    while True:
        try:
            started = await to_thread.run_sync(given.deployments.start, owner, config_id)
            break
        except TeardownGoesOn as error:
            left_s = deadline - anyio.current_time()
            await watcher.until(config_id, lambda seen: seen is None, left_s, error.detail)
    await until_up(watcher, started, deadline - anyio.current_time())
    return await to_thread.run_sync(given.deployments.get, owner, config_id)


async def until_up(watcher: Watcher, started: Deployment, within_s: float) -> None:
    """Return when what was started runs. Raises DeployFailed, DeployPending, Conflict when it is torn down."""
    pending = "The deployment still goes on. Ask again, or read GET …/deploy."
    await watcher.until(started.flow_id, partial(is_up, started), within_s, pending)
