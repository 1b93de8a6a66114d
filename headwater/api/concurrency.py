"""Lets routes wait and share threads: limits per owner, uploads, waits for the controller.

- `OwnerLimiter` bounds expensive work, in total and per owner.
- `run_upload` reads and stores a request body with values under such a limit.
- `Watcher` waits until the controller has acted on deployments; `roll_out` deploys and waits.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio import from_thread, to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from headwater.errors import DatabaseUnavailable, DeployPending, HeadwaterError, MalformedRequest, TeardownInProgress
from headwater.loop_health import LoopHealth
from headwater.model.deployment import Deployment, Progress
from headwater.services.deployments import Deployments, is_running

MAX_CONCURRENT_CHECKS = 4
"""A request that compiles scripts runs a V8 process of about 60 MB."""
MAX_CONCURRENT_CHECKS_PER_OWNER = 2
"""A script that uses up its time limit occupies its slot for seconds; one owner must not block all others."""
MAX_CONCURRENT_UPLOADS = 32
MAX_CONCURRENT_UPLOADS_PER_OWNER = 8
"""Five concurrent uploads are normal load (docs/reference/limits.md). Slow clients must not block other owners."""
POLL_S = 0.1

T = TypeVar("T")

ReadProgress = Callable[[Collection[str]], Mapping[str, Progress]]
"""Reads the progress of the deployments of these configurations. It may block and raises DatabaseUnavailable."""


class OwnerLimiter:
    """Runs jobs on threads, at most `at_once` in total and `per_owner` of one owner.

    Further jobs wait.
    """

    def __init__(self, at_once: int, per_owner: int) -> None:
        self._all = anyio.CapacityLimiter(at_once)
        self._per_owner = per_owner
        self._owners: WeakValueDictionary[str, anyio.CapacityLimiter] = WeakValueDictionary()

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Run blocking work on a thread as soon as both limits allow it."""
        own = self._owners.get(owner)
        if own is None:
            own = self._owners[owner] = anyio.CapacityLimiter(self._per_owner)
        async with own:
            return await to_thread.run_sync(work, limiter=self._all)


async def run_upload(request: Request, work: Callable[[Iterator[bytes]], T]) -> T:
    """Run `work` on the chunks of the request body, on a thread.

    The call waits until the limits of uploads allow it. The thread requests the next chunk only when it has stored the
    one before, so a slow store slows the client down. The event loop only passes chunks on. The iterator raises
    MalformedRequest when the client disconnects before the end of the body, or when the server closes the connection
    because the body has stopped arriving.
    """
    body = request.stream()

    def chunks() -> Iterator[bytes]:
        while chunk := from_thread.run(_next_chunk, body):
            yield chunk

    limiter: OwnerLimiter = request.app.state.upload_limiter
    return await limiter.run(request.scope["api_key"].owner, partial(work, chunks()))


async def _next_chunk(body: AsyncGenerator[bytes, None]) -> bytes:
    try:
        return await anext(body, b"")
    except ClientDisconnect as error:
        raise incomplete_body() from error


def incomplete_body() -> MalformedRequest:
    """The error for a body whose connection ended too early."""
    return MalformedRequest(
        "The connection ended before the whole body had arrived. Nothing was changed; send the request again."
    )


class Watcher:
    """Waits until the controller has acted on deployments.

    Waiting requests hold no thread and share one query. The watcher polls the progress of all awaited deployments every
    POLL_S seconds, and stops while no request waits.
    """

    def __init__(self, read_progress: ReadProgress) -> None:
        self._read_progress = read_progress
        self.loop = LoopHealth("watching deployments")
        self._thread = anyio.CapacityLimiter(1)
        self._awaited: Counter[str] = Counter()
        self._polls_started = 0
        self._polls_finished = 0
        self._latest: dict[str, Progress | None] = {}
        self._error: HeadwaterError | None = None
        self._has_waiters = anyio.Event()
        self._poll_finished = anyio.Event()

    async def run(self) -> None:
        """Poll until the task is cancelled.

        After an unexpected error, polling is retried even when no request waits any more, so that readiness can
        recover.
        """
        while True:
            if not self.loop.error:
                await self._has_waiters.wait()
            self._has_waiters = anyio.Event()
            await self._poll_while_awaited()

    async def _poll_while_awaited(self) -> None:
        """Poll at least once, and then for as long as a request waits."""
        while True:
            delay_s = POLL_S
            try:
                await self._poll_once()
                self.loop.succeeded()
            except Exception as error:  # noqa: BLE001  # this is the only poller: without it, deploy calls wait in vain
                delay_s = self.loop.failed(error)
            await anyio.sleep(delay_s)
            if not self._awaited:
                return

    async def _poll_once(self) -> None:
        self._polls_started += 1
        awaited = frozenset(self._awaited)
        try:
            found = await to_thread.run_sync(self._read_progress, awaited, limiter=self._thread)
            self._latest = {config_id: found.get(config_id) for config_id in awaited}
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

    async def until(
        self, config_id: str, done: Callable[[Progress | None], bool], within_s: float, pending: str
    ) -> None:
        """Wait until `done` returns true for the progress of a configuration's deployment.

        The progress is None when there is no deployment. An exception of `done` is passed on. Only polls that start
        after this call count, so that every write before the call is visible. Raises DatabaseUnavailable, and
        DeployPending with the sentence `pending` after `within_s` seconds.
        """
        polls_before = self._polls_started
        self._awaited[config_id] += 1
        try:
            with anyio.move_on_after(within_s):
                while not done(await self._next(config_id, polls_before)):
                    pass
                return
            raise DeployPending(pending)
        finally:
            self._awaited[config_id] -= 1
            self._awaited += Counter()  # the sum of two Counters has no members whose count is 0

    async def _next(self, config_id: str, polls_before: int) -> Progress | None:
        """Return the progress from the next poll that starts after poll number `polls_before`."""
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
    deployments: Deployments, watcher: Watcher, owner: str, config_id: str, timeout_s: float
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
            await watcher.until(config_id, lambda progress: progress is None, left_s, error.detail)
    await wait_until_running(watcher, started, deadline - anyio.current_time())
    return await to_thread.run_sync(deployments.get, owner, config_id)


async def wait_until_running(watcher: Watcher, started: Deployment, within_s: float) -> None:
    """Wait until a started deployment runs.

    Raises DeployFailed, DeployPending, and Conflict when it is torn down.
    """
    pending = "Deployment in progress. Repeat the request to wait for it, or read its state with GET …/deploy."
    await watcher.until(started.config_id, partial(is_running, started), within_s, pending)
