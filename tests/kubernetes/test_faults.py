"""A pipeline copies a stream while parts of the cluster fail.

No record is lost. Outputs are repeated only after a kill of a worker, with the same header. In the end nothing of the
pipeline is left in the cluster.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2

from tests.acceptance.installation import Deployed, Reader, deployed, in_background, kill, pipeline, reading
from tests.kubernetes.release import Release
from tests.support.waiting import until

CHAIN, ENTITY = "base", "erc20_token_transfer"
SCRIPT = {"type": "v8", "script": "function process(r) { return {n: r.n, twice: 2 * r.n}; }"}
OTHER_SCRIPT = {"type": "v8", "script": "function process(r) { return {n: r.n, thrice: 3 * r.n}; }"}
FEED_EVERY_S, FED_AT_ONCE = 0.1, 30
WORKERS = 2
KILLS = 3
OUTAGE_S = 60.0
WITHIN_S = 120.0


class Copy:
    """A running pipeline, whose stream gets records until the end of the test."""

    def __init__(self, release: Release, flow: Deployed, reader: Reader) -> None:
        self.release = release
        self.flow = flow
        self.reader = reader
        self.fed = 0

    def feed(self, stop: threading.Event) -> None:
        """Feed records until the event is set."""
        while not stop.wait(FEED_EVERY_S):
            self.release.feed(CHAIN, ENTITY, ({"n": n} for n in range(self.fed, self.fed + FED_AT_ONCE)))
            self.fed += FED_AT_ONCE

    def wait_for_outputs(self) -> None:
        """Wait until all records that have been fed by now are copied."""
        self.reader.read(self.fed, WITHIN_S)

    def containers(self) -> dict[str, tuple[str, int]]:
        """Return the container of each worker, and how often it was restarted, by Pod."""
        states = {pod["metadata"]["name"]: pod["status"]["containerStatuses"] for pod in self.release.pods("worker")}
        return {name: (state.get("containerID", ""), state["restartCount"]) for name, (state,) in states.items()}

    def health(self) -> Any:
        """Return the workers as the API shows them."""
        with self.release.client() as client:
            stats = client.get(f"/api/v1/flow/{self.flow.id}/deploy/stats")
        assert stats.status_code == 200, stats.text
        return stats.json()["workers_health"]

    def is_healthy(self) -> bool:
        """Return whether the API shows all workers as ready."""
        health = self.health()
        return len(health["workers"]) == WORKERS and all(worker["is_ready"] for worker in health["workers"])

    def is_ready(self) -> bool:
        """Return whether the API and everything that it needs are ready."""
        with contextlib.suppress(httpx2.TransportError), self.release.client() as client:
            return client.get("/readyz").status_code == 200
        return False


@contextlib.contextmanager
def copying(release: Release, *, repeats: bool) -> Iterator[Copy]:
    """Copy a stream during a block, and check the outputs and what is left at its end.

    Args:
        release: The release.
        repeats: Whether outputs may be repeated.
    """
    body = pipeline(ENTITY, CHAIN, transforms=[SCRIPT], parallelism=WORKERS)
    with release.client() as client, deployed(client, body) as flow, reading(flow.sink) as reader:
        copy = Copy(release, flow, reader)
        with in_background(copy.feed):
            until(lambda: copy.fed, WITHIN_S, "records")
            copy.wait_for_outputs()
            yield copy
            until(copy.is_ready, WITHIN_S, "readiness")
            until(copy.is_healthy, WITHIN_S, "the workers' readiness")
            copy.wait_for_outputs()
        copy.wait_for_outputs()
        until(lambda: not reader.poll(1.0), WITHIN_S, "the last outputs")
        values = {record.headers["headwater-src"]: record.json() for record in reader.records}
        assert sorted(value["n"] for value in values.values()) == list(range(copy.fed))
        assert all(values[record.headers["headwater-src"]] == record.json() for record in reader.records)
        counts = Counter(record.headers["headwater-src"] for record in reader.records)
        repeated = sorted(source_id for source_id, count in counts.items() if count > 1)
        print(f"{copy.fed} records, repeated: {repeated}")
        print(client.get(f"/api/v1/flow/{flow.id}/deploy/logs", params={"limit": 1000}).text)
        assert repeats or len(reader.records) == len(values)
    assert release.worker_objects() == []


def test_workers_are_killed_and_deleted_by_force(release: Release) -> None:
    with copying(release, repeats=True) as copy:
        for number in range(KILLS):
            before = copy.containers()
            victim = sorted(before)[number % WORKERS]
            if number % 2:
                kill(release.processes(victim)[:1])
            else:
                release.kubectl("delete", "pod", victim, "--force", "--grace-period=0")
            until(lambda: len(copy.containers().items() - before.items()) == 1, WITHIN_S, "another one")  # noqa: B023
            copy.wait_for_outputs()


def test_the_kubelet_is_killed_and_started_again(release: Release) -> None:
    with copying(release, repeats=False) as copy:
        before = copy.containers()
        cluster = release.cluster
        name = release.pods("worker")[0]["spec"]["nodeName"]
        node = cluster.nodes[name]
        node.kill_kubelet()
        until(lambda: name not in cluster.ready_nodes(), WITHIN_S, "the loss of the node")
        copy.wait_for_outputs()
        node.start_kubelet()
        cluster.wait_until_ready()
        until(copy.is_healthy, WITHIN_S, "the workers' readiness")
        assert copy.containers() == before


def test_the_api_server_is_killed_for_a_minute(release: Release) -> None:
    with copying(release, repeats=False) as copy:
        before = copy.containers()
        control_plane = release.cluster.control_plane
        # Without the API server, a controller manager with leader election ends after its lease. One that goes on takes
        # the nodes for lost when the API server is back, and evicts the Pods of the API and the controllers.
        control_plane.kill("kube-controller-manager")
        control_plane.kill("kube-apiserver")
        try:
            end = time.monotonic() + OUTAGE_S
            while time.monotonic() < end:
                assert len(copy.health()["workers"]) == WORKERS
                copy.wait_for_outputs()
                time.sleep(1.0)
            assert not copy.is_ready(), "the controller can't manage Pods"
        finally:
            control_plane.restart("kube-apiserver")
            control_plane.restart("kube-controller-manager")
        release.cluster.wait_until_ready()
        until(copy.is_ready, WITHIN_S, "the recovery of the controller")
        assert copy.containers() == before
        logs = release.kubectl("logs", "--selector=app.kubernetes.io/component=controller", "--tail=-1")
        assert "The state of the Pods is not known" in logs


def nodes_of_workers(release: Release) -> set[str]:
    return {pod["spec"].get("nodeName", "") for pod in release.pods("worker")}


def test_a_node_is_drained_and_comes_back(release: Release) -> None:
    with copying(release, repeats=False) as copy:
        node = release.pods("worker")[0]["spec"]["nodeName"]
        release.cluster.kubectl("cordon", node)
        try:
            release.cluster.kubectl(
                "drain", node, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=180s"
            )
            others = release.cluster.nodes.keys() - {node}
            until(lambda: nodes_of_workers(release) == others and copy.is_healthy(), WITHIN_S, "workers on other nodes")
            copy.wait_for_outputs()
        finally:
            release.cluster.kubectl("uncordon", node)


def test_the_leading_controller_is_killed(release: Release) -> None:
    with copying(release, repeats=False) as copy:
        before, (fencing_token, leader) = copy.containers(), release.leader()
        kill(release.processes(leader)[:1])
        until(lambda: release.leader()[0] > fencing_token, WITHIN_S, "another leader")
        until(copy.is_ready, WITHIN_S, "the readiness of the new leader")
        copy.wait_for_outputs()
        assert copy.containers() == before
        with release.client() as client:
            changed = client.patch(f"/api/v1/flow/{copy.flow.id}/transforms/{copy.flow.uid()}", json=OTHER_SCRIPT)
        assert changed.status_code == 200, changed.text
