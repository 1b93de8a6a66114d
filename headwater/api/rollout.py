"""Deploying from a route: what deploy itself and the routes that deploy by themselves share."""

from functools import partial

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
    while True:
        try:
            started = await to_thread.run_sync(given.deployments.start, owner, config_id)
            break
        except TeardownGoesOn as error:
            await watcher.until(config_id, lambda seen: seen is None, given.deploy_timeout_s, error.detail)
    await until_up(given, watcher, started)
    return await to_thread.run_sync(given.deployments.get, owner, config_id)


async def until_up(given: Services, watcher: Watcher, started: Deployment) -> None:
    """Return when what was started runs. Raises DeployFailed, DeployPending, Conflict when it is torn down."""
    pending = "The deployment still goes on. Ask again, or read GET …/deploy."
    await watcher.until(started.flow_id, partial(is_up, started), given.deploy_timeout_s, pending)
