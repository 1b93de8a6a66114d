"""The orchestrator of Pods on a real cluster.

Its workers read nothing (tests/support/pod_worker.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lightkube import AsyncClient, KubeConfig

from headwater.errors import OrchestratorUnavailable
from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus
from headwater.model.value_sets import SetVersion
from headwater.orchestrators.kubernetes import KubernetesOrchestrator
from headwater.orchestrators.kubernetes.settings import PodSettings
from tests.contract.test_orchestrator import (
    TestEveryOrchestrator,
    TestHandOver,
    ready,
    worker_set,
)
from tests.kubernetes.cluster.cluster import Cluster
from tests.support.waiting import until

__all__ = ["TestEveryOrchestrator", "TestHandOver"]

PYTHON = "/opt/headwater/bin/python"
PROGRAM = (Path(__file__).parents[1] / "support" / "pod_worker.py").read_text("utf-8")
MEMORY_LIMIT = 256 << 20
FOREVER_S = 1e9


def is_usable(orchestrator: KubernetesOrchestrator) -> bool:
    """Return whether an orchestrator knows the state of the cluster."""
    try:
        orchestrator.worker_set_ids()
    except OrchestratorUnavailable:
        return False
    return True


@pytest.fixture
def start(cluster: Cluster, namespace: str, image: str) -> Iterator[Callable[[], KubernetesOrchestrator]]:
    """Return a function that starts an orchestrator.

    It leads, and knows the state of the cluster.
    """
    config = KubeConfig.from_file(cluster.kubeconfig).get()
    settings = PodSettings(
        image,
        memory_limit=MEMORY_LIMIT,
        cpu_request="10m",
        image_pull_policy="Never",
        command=(PYTHON, "-c", PROGRAM),
    )
    started = []

    def start() -> KubernetesOrchestrator:
        orchestrator = KubernetesOrchestrator(lambda: AsyncClient(config=config, namespace=namespace), settings)
        started.append(orchestrator)
        orchestrator.set_lease_remaining(FOREVER_S)
        until(lambda: is_usable(orchestrator))
        return orchestrator

    yield start
    for each in started:
        each.close()


@pytest.fixture
def orchestrator(start: Callable[[], KubernetesOrchestrator]) -> KubernetesOrchestrator:
    return start()


def worker(orchestrator: KubernetesOrchestrator) -> ObservedWorker:
    return orchestrator.status("d1")[0]


class Names:
    """The objects of a namespace, as kubectl lists them."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def of(self, kind: str, field: str = ".metadata.name") -> list[str]:
        """Return a field of each object of a kind."""
        template = "{range .items[*]}{" + field + "}{'\\n'}{end}"
        listed = self._cluster.kubectl("get", kind, "-n", self._namespace, "-o", f"jsonpath={template}")
        return sorted(listed.split())

    def delete_pod(self, name: str) -> None:
        """Delete a Pod without waiting for its end."""
        self._cluster.kubectl("delete", "pod", name, "-n", self._namespace, "--force", "--grace-period=0")


@pytest.fixture
def names(cluster: Cluster, namespace: str) -> Names:
    return Names(cluster, namespace)


def test_a_worker_reports_its_sets_and_lines(orchestrator: KubernetesOrchestrator) -> None:
    orchestrator.ensure(worker_set())
    until(ready(orchestrator, "hash1"))
    assert worker(orchestrator).set_versions == {"fs:c1.t": SetVersion(1, "a1")}
    lines: list[str] = []

    def has_line() -> bool:
        lines.extend(line.message for line in orchestrator.take_logs().get("d1", []))
        return "revision 1" in lines

    until(has_line)
    orchestrator.ensure(worker_set(revision=2))
    until(ready(orchestrator, "hash2"))
    assert worker(orchestrator).set_versions == {"fs:c1.t": SetVersion(2, "a1")}


def test_a_worker_that_keeps_failing_is_in_a_crash_loop_with_its_last_words(
    orchestrator: KubernetesOrchestrator,
) -> None:
    orchestrator.ensure(worker_set(revision=666))
    until(lambda: worker(orchestrator).status is ObservedWorkerStatus.CRASH_LOOP_BACK_OFF)
    assert "the script does not compile" in worker(orchestrator).reason
    assert worker(orchestrator).deaths >= 1
    orchestrator.ensure(worker_set(revision=2))
    until(ready(orchestrator, "hash2"))
    assert not worker(orchestrator).is_crash_looping


def test_a_worker_that_needs_too_much_memory(orchestrator: KubernetesOrchestrator) -> None:
    orchestrator.ensure(worker_set(revision=888))
    until(lambda: worker(orchestrator).is_oom_killed)
    until(lambda: worker(orchestrator).restart_count >= 1)
    assert "needed more memory" in orchestrator.take_logs()["d1"][-1].message


def test_old_workers_run_until_all_successors_are_prepared(orchestrator: KubernetesOrchestrator, names: Names) -> None:
    orchestrator.ensure(worker_set(slots=2))
    until(ready(orchestrator, "hash1", 2))
    before = names.of("pods", ".metadata.uid")
    orchestrator.ensure(worker_set(revision=777, slots=2))
    until(lambda: len(names.of("pods")) == 4)
    assert {each.spec_hash for each in orchestrator.successors("d1")} == {"hash777"}
    assert ready(orchestrator, "hash1", 2)()
    orchestrator.ensure(worker_set(slots=2))
    until(lambda: names.of("pods", ".metadata.uid") == before)
    assert ready(orchestrator, "hash1", 2)()
    assert [each.restart_count for each in orchestrator.status("d1")] == [0, 0]


def test_another_controller_continues(
    start: Callable[[], KubernetesOrchestrator], orchestrator: KubernetesOrchestrator, names: Names
) -> None:
    orchestrator.ensure(worker_set(slots=2))
    until(ready(orchestrator, "hash1", 2))
    before = names.of("pods", ".metadata.uid")
    orchestrator.close()
    other = start()
    assert other.worker_set_ids() == {"d1"}
    until(ready(other, "hash1", 2))
    other.ensure(worker_set(slots=2))
    until(ready(other, "hash1", 2))
    assert names.of("pods", ".metadata.uid") == before
    other.ensure(worker_set(revision=2, slots=2))
    until(ready(other, "hash2", 2))


def test_a_controller_that_does_not_lead_changes_nothing(
    start: Callable[[], KubernetesOrchestrator], orchestrator: KubernetesOrchestrator, names: Names
) -> None:
    orchestrator.ensure(worker_set())
    until(ready(orchestrator, "hash1"))
    before = names.of("pods", ".metadata.uid")
    orchestrator.set_lease_remaining(-1)
    orchestrator.ensure(worker_set(revision=2))
    orchestrator.stop_workers("d1")
    other = start()
    other.ensure(worker_set())
    until(ready(other, "hash1"))
    assert names.of("pods", ".metadata.uid") == before


def test_a_deleted_pod_is_replaced(orchestrator: KubernetesOrchestrator, names: Names) -> None:
    orchestrator.ensure(worker_set())
    until(ready(orchestrator, "hash1"))
    (before,) = names.of("pods", ".metadata.uid")
    names.delete_pod(*names.of("pods"))
    until(lambda: before not in names.of("pods", ".metadata.uid") and ready(orchestrator, "hash1")())


def test_replaced_certificates_replace_the_workers(
    orchestrator: KubernetesOrchestrator, names: Names, tmp_path: Path
) -> None:
    certificates, plain = tmp_path / "ca.pem", worker_set(slots=2)
    certificates.write_text("a certificate")
    kafka = plain.spec.kafka.model_copy(update={"ca_file": str(certificates)})
    wanted = replace(plain, spec=plain.spec.model_copy(update={"kafka": kafka}))
    orchestrator.ensure(wanted)
    until(ready(orchestrator, "hash1", 2))
    pods, secrets = names.of("pods"), names.of("secrets")
    orchestrator.ensure(wanted)
    assert (names.of("pods"), names.of("secrets")) == (pods, secrets)
    certificates.write_text("another certificate")
    orchestrator.ensure(wanted)
    until(lambda: len(names.of("pods")) == 2 and not set(names.of("pods")) & set(pods))
    until(lambda: len(names.of("secrets")) == 1 and names.of("secrets") != secrets)
    until(ready(orchestrator, "hash1", 2))
    assert [each.restart_count for each in orchestrator.status("d1")] == [0, 0]


def test_nothing_is_left(orchestrator: KubernetesOrchestrator, names: Names) -> None:
    for revision in (1, 2):
        orchestrator.ensure(worker_set(revision, slots=2))
        until(ready(orchestrator, f"hash{revision}", 2))
    until(lambda: names.of("secrets") == ["d1-hash2"])
    until(lambda: orchestrator.stop_workers("d1"))
    assert (names.of("pods"), names.of("secrets")) == ([], [])
