"""Waits until the controller has acted on deployments."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial

import anyio
from anyio import to_thread

from headwater.errors import DatabaseUnavailable, DeployPending, HeadwaterError, TeardownInProgress
from headwater.loop_health import LoopHealth
from headwater.model.deployment import Deployment, DeploymentProgress
from headwater.services.deployments import Deployments, is_running

POLL_S = 0.1

ReadProgress = Callable[[Collection[str]], Mapping[str, DeploymentProgress]]
"""Reads the progress of the deployments of these configurations. It may block and raises DatabaseUnavailable."""


class DeploymentWatcher:
    """Waits until the controller has acted on deployments.

    Waiting requests hold no thread and share one query. The watcher polls the progress of all awaited deployments every
    POLL_S seconds, and stops while no request waits.
    """

    def __init__(self, read_progress: ReadProgress) -> None:
        self._read_progress = read_progress
        self.poll_health = LoopHealth("watching deployments")
        self._thread_limiter = anyio.CapacityLimiter(1)
        self._awaited: Counter[str] = Counter()
        self._polls_started = 0
        self._polls_finished = 0
        self._latest: dict[str, DeploymentProgress | None] = {}
        self._error: HeadwaterError | None = None
        self._has_waiters = anyio.Event()
        self._poll_finished = anyio.Event()

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
            delay_s = POLL_S
            try:
                await self._poll_once()
                self.poll_health.on_success()
            except Exception as error:  # noqa: BLE001  # this is the only poller: without it, deploy calls wait in vain
                delay_s = self.poll_health.on_error(error)
            await anyio.sleep(delay_s)
            if not self._awaited:
                return

    async def _poll_once(self) -> None:
        self._polls_started += 1
        awaited = frozenset(self._awaited)
        try:
            progress = await to_thread.run_sync(self._read_progress, awaited, limiter=self._thread_limiter)
            self._latest = {config_id: progress.get(config_id) for config_id in awaited}
            self._error = None
        except DatabaseUnavailable as error:
            self._error = error
        except Exception:
            self._error = DatabaseUnavailable("The state of the deployment can't be read. Send the same request again.")
            raise
        finally:
            self._polls_finished = self._polls_started
            self._poll_finished.set()
            self._poll_finished = anyio.Event()

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
        polls_before = self._polls_started
        self._awaited[config_id] += 1
        try:
            with anyio.move_on_after(timeout_s):
                while not is_done(await self._next_progress(config_id, polls_before)):
                    pass
                return
            raise DeployPending(pending_detail)
        finally:
            self._awaited[config_id] -= 1
            self._awaited += Counter()  # the sum of two Counters has no members whose count is 0

    async def _next_progress(self, config_id: str, polls_before: int) -> DeploymentProgress | None:
        """Wait until the next poll ends, and return its progress.

        The polls with the numbers up to `polls_before` are ignored, because they have started before `wait_until`.
        """
        while True:
            finished = self._poll_finished
            self._has_waiters.set()
            await finished.wait()
            if self._polls_finished <= polls_before:
                continue
            if self._error is not None:
                raise self._error
            return self._latest[config_id]


async def roll_out(
    deployments: Deployments, watcher: DeploymentWatcher, owner: str, config_id: str, timeout_s: float
) -> Deployment:
    """Deploy the newest revision and return when it runs.

    When a teardown is in progress, wait for its end first. Raises NotFound, DeployFailed and DeployPending, and
    Conflict when the deployment is torn down meanwhile.
    """
    deadline = anyio.current_time() + timeout_s
    while True:
        try:
            started = await to_thread.run_sync(deployments.start, owner, config_id)
            break
        except TeardownInProgress as error:
            left_s = deadline - anyio.current_time()
            await watcher.wait_until(config_id, lambda progress: progress is None, left_s, error.detail)
    await wait_until_running(watcher, started, deadline - anyio.current_time())
    return await to_thread.run_sync(deployments.get, owner, config_id)


async def wait_until_running(watcher: DeploymentWatcher, started: Deployment, timeout_s: float) -> None:
    """Wait until a started deployment runs.

    Raises DeployFailed, DeployPending, and Conflict when the deployment is torn down.
    """
    pending_detail = "Deployment in progress. Repeat the request to wait for it, or read its state with GET …/deploy."
    await watcher.wait_until(started.config_id, partial(is_running, started), timeout_s, pending_detail)
