"""The known Pods, when responses of writes and events of the watch arrive in any order."""

import asyncio
from collections.abc import AsyncIterator
from itertools import permutations
from typing import Any, cast

import msgspec
import pytest
from lightkube import AsyncClient
from lightkube.resources.core_v1 import Pod, Secret

from headwater.orchestrators.kubernetes.cluster import ClusterState

NAME = "d1-0"


def pod(version: int, phase: str) -> Pod:
    return msgspec.convert(
        {"metadata": {"name": NAME, "resourceVersion": str(version)}, "status": {"phase": phase}}, Pod
    )


CREATED, RUNNING, PROMOTED = pod(5, "Pending"), pod(7, "Running"), pod(9, "Running")
DELETED = pod(11, "Running")


class Listing:
    """The response to a list request."""

    resourceVersion = "3"  # noqa: N815

    async def __aiter__(self) -> AsyncIterator[Any]:
        for each in list[Any]():
            yield each


class Api:
    """An API whose watches deliver the events that the test puts into a queue."""

    def __init__(self) -> None:
        self.events: dict[type, asyncio.Queue[tuple[str, Any]]] = {Pod: asyncio.Queue(), Secret: asyncio.Queue()}

    def list(self, _: type, **__: Any) -> Listing:
        return Listing()

    async def watch(self, kind: type, **_: Any) -> AsyncIterator[Any]:
        while True:
            yield await self.events[kind].get()
            self.events[kind].task_done()


async def phases(steps: tuple[tuple[str, Pod], ...]) -> list[str | None]:
    """Return the phase of the known Pod after each step; None while no Pod is known.

    A step is the response of a write, or an event of the watch.
    """
    api, found = Api(), list[str | None]()
    cluster = ClusterState(cast("AsyncClient", api), "headwater", lambda _: None)
    following = asyncio.create_task(cluster.follow())
    while not cluster.is_current:  # noqa: ASYNC110  # it has no event
        await asyncio.sleep(0)
    for kind, each in steps:
        if kind == "response":
            cluster.apply_response(each)
        else:
            api.events[Pod].put_nowait((kind, each))
            await api.events[Pod].join()
        known = cluster.pods.get(NAME)
        found.append(known.status.phase if known is not None and known.status is not None else None)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return found


def test_a_late_response_does_not_replace_a_newer_version() -> None:
    steps = (("ADDED", CREATED), ("MODIFIED", RUNNING), ("response", CREATED))
    assert asyncio.run(phases(steps)) == ["Pending", "Running", "Running"]


def test_a_late_response_does_not_bring_a_deleted_pod_back() -> None:
    steps = (("ADDED", CREATED), ("MODIFIED", RUNNING), ("DELETED", DELETED), ("response", CREATED))
    assert asyncio.run(phases(steps))[-1] is None


def test_a_response_counts_before_the_watch_delivers_it() -> None:
    steps = (("response", CREATED), ("ADDED", CREATED), ("MODIFIED", RUNNING))
    assert asyncio.run(phases(steps)) == ["Pending", "Pending", "Running"]


def in_order(steps: tuple[tuple[str, Pod], ...]) -> bool:
    watched = [each for kind, each in steps if kind != "response"]
    return watched == sorted(watched, key=[CREATED, RUNNING, PROMOTED].index)


EVENTS = (("ADDED", CREATED), ("MODIFIED", RUNNING), ("MODIFIED", PROMOTED))
RESPONSES = (("response", CREATED), ("response", PROMOTED))


@pytest.mark.parametrize("steps", [each for each in permutations((*EVENTS, *RESPONSES)) if in_order(each)])
def test_the_last_version_wins_in_any_order(steps: tuple[tuple[str, Pod], ...]) -> None:
    seen = asyncio.run(phases(steps))
    assert seen[-1] == "Running"
    assert "Pending" not in seen[seen.index("Running") :]
