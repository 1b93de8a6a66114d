"""The Pods and Secrets of an installation, kept up to date by watching them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import httpx2
import structlog
from lightkube import ApiError, AsyncClient
from lightkube.resources.core_v1 import Pod, Secret

from headwater.loop_health import LoopHealth
from headwater.orchestrators.kubernetes import labels

log = structlog.get_logger(__name__)

WATCH_S = 50
"""How long the API server keeps a watch open. Then the client begins the next one."""
WATCH_TIMEOUT_S = 60.0
"""After this time the client abandons a watch, and begins another one at the last seen version.

lightkube begins a new watch after WATCH_S by itself, but would wait for ever on a connection without an answer.
"""
PROBE_INTERVAL_S = 3.0
CURRENT_FOR_S = 10.0
"""An older state counts as unknown."""
MAX_RETRY_DELAY_S = 2.0
GONE = 410

T = TypeVar("T", Pod, Secret)


class ClusterState:
    """The Pods and Secrets that have the labels of an installation.

    Attributes:
        pods: The Pods by name.
        secrets: The Secrets by name.
        health: The errors of the watches.

    Args:
        client: The client.
        instance: The name of the installation.
        on_change: Is called with the Pod or Secret that has changed.
    """

    def __init__(self, client: AsyncClient, instance: str, on_change: Callable[[Pod | Secret], None]) -> None:
        self.pods: dict[str, Pod] = {}
        self.secrets: dict[str, Secret] = {}
        self.health = LoopHealth("watching Pods")
        self._client: Any = client  # its methods have no types for a kind that is a variable
        self._labels = labels.selector(instance)
        self._on_change = on_change
        self._seen_at = float("-inf")
        self._versions: dict[type[Pod | Secret], int] = {}

    @property
    def is_current(self) -> bool:
        """Whether the state was confirmed by the API server in the last CURRENT_FOR_S seconds."""
        return len(self._versions) == 2 and time.monotonic() - self._seen_at < CURRENT_FOR_S

    async def follow(self) -> None:
        """Keep the state up to date, until the task is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(Pod, self.pods))
            tasks.create_task(self._follow(Secret, self.secrets))
            tasks.create_task(self._probe())

    async def _follow(self, kind: type[T], objects: dict[str, T]) -> None:
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._list(kind, objects)
                async for seen_version in self._watch(kind, version):
                    version = seen_version
                    self._versions[kind] = int(version)
                    self._confirm()
            except ApiError as error:
                version = None
                if error.status.code != GONE:
                    await self._wait_after(error)
            except httpx2.HTTPError as error:
                await self._wait_after(error)
            except TimeoutError:
                continue

    async def _wait_after(self, error: Exception) -> None:
        await asyncio.sleep(min(self.health.on_error(error), MAX_RETRY_DELAY_S))

    async def _list(self, kind: type[T], objects: dict[str, T]) -> str:
        """Replace the objects by those that exist. Return the version at which they were listed."""
        listing = self._client.list(kind, labels=self._labels)
        listed = {_name(each): each async for each in listing}
        changed = [each for name, each in objects.items() if name not in listed]
        changed += [each for name, each in listed.items() if objects.get(name) != each]
        objects.clear()
        objects.update(listed)
        version = str(listing.resourceVersion)
        self._versions[kind] = int(version)
        self._confirm()
        for each in changed:
            self._on_change(each)
        return version

    async def _watch(self, kind: type[T], version: str) -> AsyncIterator[str]:
        """Apply changes for WATCH_TIMEOUT_S seconds, and yield the version after each."""
        events = self._client.watch(kind, labels=self._labels, server_timeout=WATCH_S, resource_version=version)
        async with asyncio.timeout(WATCH_TIMEOUT_S), aclosing(events):
            async for operation, changed in events:
                self.apply(changed, is_deleted=operation == "DELETED")
                assert changed.metadata is not None
                yield changed.metadata.resourceVersion or version

    def apply_response(self, written: Pod | Secret) -> None:
        """Store the object that a write has returned.

        The watch can be faster than the response: it may have delivered this version already, a newer version, or the
        deletion of the object. Then nothing is stored.
        """
        if _version(written) > self._versions.get(type(written), 0):
            self.apply(written)

    def apply(self, changed: Pod | Secret, *, is_deleted: bool = False) -> None:
        """Store a new or changed object, or remove a deleted one.

        Nothing changes when a newer version of the object is known.
        """
        objects: dict[str, Pod] | dict[str, Secret] = self.pods if isinstance(changed, Pod) else self.secrets
        known = objects.get(_name(changed))
        if known is not None and _version(known) > _version(changed):
            return
        if is_deleted:
            objects.pop(_name(changed), None)
        else:
            objects[_name(changed)] = changed  # type: ignore[assignment]
        self._on_change(changed)

    async def _probe(self) -> None:
        """Send small requests, to know that the API server answers while nothing changes."""
        while True:
            await asyncio.sleep(PROBE_INTERVAL_S)
            try:
                async for _ in self._client.list(Secret, labels=self._labels, chunk_size=1):
                    break
            except httpx2.HTTPError as error:
                log.warning("the Kubernetes API does not answer", error=str(error))
            else:
                self._confirm()

    def _confirm(self) -> None:
        self._seen_at = time.monotonic()
        self.health.on_success()


def _name(named: Pod | Secret) -> str:
    assert named.metadata is not None
    return named.metadata.name or ""


def _version(versioned: Pod | Secret) -> int:
    """Return the version of an object.

    It is a number that grows with each write (Kubernetes' KEP-5504).
    """
    assert versioned.metadata is not None
    return int(versioned.metadata.resourceVersion or 0)
