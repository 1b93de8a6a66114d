"""The orchestrator of Pods on a pretended Kubernetes API."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx2
import msgspec
import pytest
from lightkube import AsyncClient
from lightkube.resources.core_v1 import Pod

from headwater.errors import OrchestratorUnavailable
from headwater.model.reading_plan import IsolationStatus, PartitionPosition
from headwater.orchestrators.kubernetes import KubernetesOrchestrator, labels, orchestrator, pod_executor
from headwater.orchestrators.kubernetes.settings import PodSettings
from tests.contract.test_orchestrator import worker_set
from tests.support.waiting import until

FOREVER_S = 1e9


def deleted_pod() -> Pod:
    """Return a Pod whose node never removes it."""
    label_values = {labels.WORKER_SET: "d1", labels.SLOT: "0", labels.SPEC: "h", labels.ROLE: labels.WORKER}
    times = {"creationTimestamp": datetime.now(UTC), "deletionTimestamp": datetime.now(UTC)}
    return msgspec.convert({"metadata": {"name": "d1-0", "uid": "u1", "labels": label_values, **times}}, Pod)


class Listing:
    """The answer to a list request."""

    resourceVersion = "1"  # noqa: N815

    def __init__(self, *objects: Any) -> None:
        self._objects = objects

    async def __aiter__(self) -> AsyncIterator[Any]:
        for each in self._objects:
            yield each


class Api:
    """An API that has one Pod, and remembers the names of deleted Pods.

    It reports no changes and creates nothing, and remembers the names of what it was to create.
    """

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.requested: set[str] = set()

    def list(self, kind: type, **_: Any) -> Listing:
        return Listing(deleted_pod()) if kind is Pod else Listing()

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    async def create(self, wanted: Any) -> Any:
        self.requested.add(wanted.metadata.name)
        raise httpx2.ConnectError("no route to host")

    async def delete(self, _: type, name: str, **__: Any) -> None:
        self.deleted.append(name)

    async def close(self) -> None:
        pass


def is_usable(pods: KubernetesOrchestrator) -> bool:
    """Return whether an orchestrator knows the Pods."""
    try:
        return bool(pods.worker_set_ids())
    except OrchestratorUnavailable:
        return False


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def pods(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesOrchestrator]:
    monkeypatch.setattr(pod_executor, "RETRY_S", 0.01)
    monkeypatch.setattr(orchestrator, "RECHECK_INTERVAL_S", 0.2)
    monkeypatch.setattr(orchestrator, "OVERDUE_AFTER_S", 1.0)
    started = KubernetesOrchestrator(lambda: cast("AsyncClient", api), PodSettings("image"))
    started.set_lease_remaining(FOREVER_S)
    yield started
    started.close()


def test_worker_sets_without_changes_are_planned_again_while_others_change(
    api: Api, pods: KubernetesOrchestrator
) -> None:
    until(lambda: is_usable(pods))
    pods.ensure(worker_set(deployment_id="d2"))  # its Pod can't be created, which is tried again and again
    pods.stop_workers("d1")
    until(lambda: "d1-0" in api.deleted, 10)


def test_a_worker_without_a_pod_is_not_ready(pods: KubernetesOrchestrator) -> None:
    until(lambda: is_usable(pods))
    pods.ensure(worker_set(deployment_id="d2", slots=2))  # its Pods can't be created
    found = [(each.worker, each.heartbeat, each.is_ready) for each in pods.worker_snapshots()]
    assert ("d2-0", None, False) in found
    assert ("d2-1", None, False) in found


def test_every_slot_reads_one_by_one_after_a_quarantine_in_any_slot(pods: KubernetesOrchestrator) -> None:
    until(lambda: is_usable(pods))
    pods.ensure(worker_set(deployment_id="d2", slots=2))
    status = IsolationStatus(quarantined=[PartitionPosition(3, 17)], is_over=True)
    pods._history("d2", 0).oom_history.on_isolation_status("hash1", status)
    pods.ensure(worker_set(2, slots=2, deployment_id="d2"))
    plans = [pods._history("d2", slot).oom_history.reading_plan("hash2") for slot in range(2)]
    assert [plan.isolates_partitions for plan in plans] == [True, True]

    pods._history("d2", 0).oom_history.on_isolation_status("hash2", IsolationStatus(is_over=True))
    pods.ensure(worker_set(2, slots=2, deployment_id="d2"))
    assert pods._history("d2", 1).oom_history.reading_plan("hash2").isolates_partitions
    assert pods._history("d2", 1).oom_history.record_kill(
        "hash2", IsolationStatus(isolated=PartitionPosition(3, 17)), 0
    )


def test_another_content_of_a_file_needs_another_secret(api: Api, pods: KubernetesOrchestrator, tmp_path: Path) -> None:
    until(lambda: is_usable(pods))
    certificates, plain = tmp_path / "ca.pem", worker_set()
    kafka = plain.spec.kafka.model_copy(update={"ca_file": str(certificates)})
    wanted = replace(plain, spec=plain.spec.model_copy(update={"kafka": kafka}))
    for number, content in enumerate(("a certificate", "another certificate"), 1):
        certificates.write_text(content)
        pods.ensure(wanted)
        until(lambda expected=number: len(api.requested) == expected, 10)  # type: ignore[misc]
    assert all(name.startswith("d1-hash1-") for name in api.requested)
