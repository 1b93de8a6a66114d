"""Waits until the controller has acted on deployments."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

import anyio
from anyio import to_thread

from headwater.api import deploy_spans
from headwater.api.shared_poll import SharedPoll
from headwater.errors import DatabaseUnavailable, DeployPending, TeardownInProgress
from headwater.model.deployment import Deployment, DeploymentProgress
from headwater.services.deployments import Deployments, is_running

POLL_S = 0.1

ReadProgress = Callable[[Collection[str]], Mapping[str, DeploymentProgress]]
"""Reads the progress of the deployments of these configurations. It may block and raises DatabaseUnavailable."""


class DeploymentWatcher(SharedPoll[str, DeploymentProgress]):
    """Waits until the controller has acted on deployments.

    It polls their progress by the id of the configuration.
    """

    def __init__(self, read_progress: ReadProgress) -> None:
        super().__init__("watching deployments", read_progress, _state_unreadable, POLL_S)

    async def wait_until(
        self,
        config_id: str,
        is_done: Callable[[DeploymentProgress | None], bool],
        timeout_s: float,
        pending_detail: str,
    ) -> None:
        """Wait until `is_done` returns true for the progress of the deployment of a configuration.

        The progress is None when the configuration is not deployed. An exception that `is_done` raises is passed on.
        Only polls that start after this call count, so that every write before the call is visible. Raises
        DatabaseUnavailable, and after `timeout_s` seconds DeployPending with the sentence `pending_detail`.
        """
        async with self.awaiting(config_id) as next_progress:
            with anyio.move_on_after(timeout_s):
                while not is_done(await next_progress()):
                    pass
                return
            raise DeployPending(pending_detail)


def _state_unreadable() -> DatabaseUnavailable:
    return DatabaseUnavailable("The state of the deployment can't be read. Send the same request again.")


async def roll_out(
    deployments: Deployments, watcher: DeploymentWatcher, owner: str, config_id: str, timeout_s: float
) -> Deployment:
    """Deploy the newest revision and return when it runs.

    When a teardown is in progress, wait for its end first. Raises NotFound, DeployFailed and DeployPending, and
    Conflict when the deployment is torn down or paused meanwhile.
    """
    deadline = anyio.current_time() + timeout_s
    while True:
        try:
            requested = await to_thread.run_sync(deployments.deploy, owner, config_id)
            break
        except TeardownInProgress as error:
            left_s = deadline - anyio.current_time()
            await watcher.wait_until(config_id, lambda progress: progress is None, left_s, error.detail)
    await wait_until_running(watcher, requested, deadline - anyio.current_time())
    return await to_thread.run_sync(deployments.get, owner, config_id)


async def wait_until_running(watcher: DeploymentWatcher, requested: Deployment, timeout_s: float) -> None:
    """Wait until the requested revision of a deployment runs.

    Raises DeployFailed, DeployPending, and Conflict when the deployment is torn down or paused meanwhile.
    """
    pending_detail = "Deployment in progress. Repeat the request to wait for it, or read its state with GET …/deploy."
    with deploy_spans.recorded(requested):
        await watcher.wait_until(requested.config_id, partial(is_running, requested), timeout_s, pending_detail)
