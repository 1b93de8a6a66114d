"""Waiting for the controller without holding a thread, and with one query for all who wait."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping

import anyio
from anyio import to_thread

from headwater.background import Loop
from headwater.errors import DeployPending, HeadwaterError, StoreUnavailable
from headwater.model.deployment import Progress

POLL_S = 0.1

Look = Callable[[Collection[str]], Mapping[str, Progress]]
"""How far the deployments of these flows have come. May block; raises StoreUnavailable."""


class Watcher:
    """Looks at all deployments that someone waits for, ten times a second, for as long as someone does."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.loop = Loop("watching deployments")
        self._thread = anyio.CapacityLimiter(1)
        self._awaited: Counter[str] = Counter()
        self._begun = 0
        self._ended = 0
        self._seen: dict[str, Progress | None] = {}
        self._failed: HeadwaterError | None = None
        self._somebody = anyio.Event()
        self._looked = anyio.Event()

    async def run(self) -> None:
        """Look until cancelled. After an unexpected error it looks again, also when nobody waits any more."""
        while True:
            if not self.loop.failing:
                await self._somebody.wait()
            self._somebody = anyio.Event()
            await self._look_on()

    async def _look_on(self) -> None:
        """Look for as long as somebody waits, once at least."""
        while True:
            delay_s = POLL_S
            try:
                await self._look_once()
                self.loop.succeeded()
            except Exception as error:  # noqa: BLE001  # nobody else looks: every later deploy would wait for nothing
                delay_s = self.loop.failed(error)
            await anyio.sleep(delay_s)
            if not self._awaited:
                return

    async def _look_once(self) -> None:
        self._begun += 1
        asked = frozenset(self._awaited)
        try:
            found = await to_thread.run_sync(self._look, asked, limiter=self._thread)
            self._seen = {flow_id: found.get(flow_id) for flow_id in asked}
            self._failed = None
        except StoreUnavailable as error:
            self._failed = error
        except Exception:
            self._failed = StoreUnavailable("The state of the deployment can't be read. Send the same request again.")
            raise
        finally:
            self._ended = self._begun
            self._looked.set()
            self._looked = anyio.Event()

    async def until(self, flow_id: str, done: Callable[[Progress | None], bool], within_s: float, pending: str) -> None:
        """Return when `done` says so of the flow's deployment (None: there is none), or raise what it raises.

        Whatever was written before this call is seen. Raises DeployPending(pending) after `within_s`, StoreUnavailable.
        """
        before = self._begun
        self._awaited[flow_id] += 1
        try:
            with anyio.move_on_after(within_s):
                while not done(await self._next(flow_id, before)):
                    pass
                return
            raise DeployPending(pending)
        finally:
            self._awaited[flow_id] -= 1
            self._awaited += Counter()  # drops what nobody waits for any more

    async def _next(self, flow_id: str, before: int) -> Progress | None:
        """What the next look sees; those up to number `before` had begun too early."""
        while True:
            looked = self._looked
            self._somebody.set()
            await looked.wait()
            if self._ended <= before:
                continue
            if self._failed is not None:
                raise self._failed
            return self._seen[flow_id]
