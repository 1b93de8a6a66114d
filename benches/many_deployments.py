"""Measures the controller with 1,000 deployments whose workers are Pods.

`python -m benches.many_deployments [--deployments 1000]` runs it, as root, and builds Kubernetes first if necessary.

A complete installation uses a real Kubernetes API server, with etcd, scheduler and controller manager, in a network of
its own. kwok makes the Pods seem to run, and one small process answers for all workers (_pretended_workers.py). When
all deployments are stable, the benchmark prints the CPU time of the controller at rest, its memory, and how long
further deploys take. The references of the same run are the same figures without deployments, and the CPU time of the
API server.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import typer

from tests.acceptance.installation import Installation, pipeline
from tests.kubernetes.cluster import enclosure
from tests.kubernetes.cluster.control_plane import ControlPlane
from tests.kubernetes.cluster.logged_process import LoggedProcess
from tests.kubernetes.cluster.network import create_bridge
from tests.kubernetes.cluster.pretended_node import PretendedNode
from tests.kubernetes.cluster.programs import built, built_kwok, missing
from tests.support.processes import cpu_seconds, descendants, rss_bytes

CHAIN, ENTITY = "base", "log"
SCRIPT = {"type": "v8", "script": "function process(r) { r.seen = true; return r; }"}
SINK = {"type": "kafka", "name": "out", "partitions": 1}
CONCURRENT_DEPLOYS = 8
DEPLOYS = 5
"""How many deploys are timed."""
SETTLE_S = 100.0
"""This is longer than a revision's probation and than the first comparison of its partitions."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of the controller.

    Attributes:
        cpu: Its CPU seconds per second at rest.
        memory_mb: Its resident memory.
        deploy_s: How long a deploy takes, for each of DEPLOYS deploys.
        api_server_cpu: The CPU seconds per second of the API server of Kubernetes at rest.
    """

    cpu: float
    memory_mb: float
    deploy_s: list[float]
    api_server_cpu: float


def deploy_one(client: httpx2.Client, name: str) -> float:
    """Create and deploy a pipeline. Return how many seconds the deploy took."""
    created = client.post("/api/v1/flow", json=pipeline(ENTITY, CHAIN, name=name, transforms=[SCRIPT], sinks=[SINK]))
    assert created.status_code == 201, created.text
    started = time.monotonic()
    response = client.post(f"/api/v1/flow/{created.json()['id']}/deploy")
    assert response.status_code == 200, response.text
    return time.monotonic() - started


def deploy_all(client: httpx2.Client, count: int) -> None:
    """Deploy pipelines, several at once."""
    with ThreadPoolExecutor(CONCURRENT_DEPLOYS) as pool:
        for number, _ in enumerate(pool.map(lambda number: deploy_one(client, f"pipeline {number}"), range(count)), 1):
            if number % 100 == 0:
                typer.echo(f"  {number} deployed", err=True)


def measure(installation: Installation, client: httpx2.Client, api_server: int, rest_s: float) -> Figures:
    """Measure the controller at rest, and then further deploys."""
    (controller,) = installation.processes("headwater controller")
    pids = (controller, api_server)
    before, started = [cpu_seconds(pid) for pid in pids], time.monotonic()
    time.sleep(rest_s)
    seconds = time.monotonic() - started
    cpu, api_server_cpu = ((cpu_seconds(pid) - used) / seconds for pid, used in zip(pids, before, strict=True))
    memory_mb = rss_bytes(controller) / 1e6
    return Figures(cpu, memory_mb, [deploy_one(client, f"timed {n}") for n in range(DEPLOYS)], api_server_cpu)


@contextmanager
def running_kubernetes(folder: Path) -> Iterator[ControlPlane]:
    """Run the control plane, a node and the answers of its Pods during the block."""
    create_bridge()
    control_plane = ControlPlane(folder, built(), [])
    control_plane.start()
    node, workers = PretendedNode(control_plane, built_kwok()), None
    try:
        node.start()
        workers = LoggedProcess(folder / "workers.log", [sys.executable, "-m", "benches._pretended_workers"])
        yield control_plane
    finally:
        node.kill()
        if workers is not None:
            workers.kill()
        control_plane.stop()


@contextmanager
def running_headwater(folder: Path, kubeconfig: Path) -> Iterator[Installation]:
    """Run `headwater up` with workers in Pods during the block."""
    variables = {
        "HEADWATER_ORCHESTRATOR": "kubernetes",
        "HEADWATER_KUBERNETES_NAMESPACE": "default",
        "HEADWATER_WORKER_IMAGE": "pretended",
        "KUBECONFIG": str(kubeconfig),
    }
    installation = Installation(folder / "data", variables=variables)
    installation.start()
    try:
        yield installation
    finally:
        installation.stop()


def run(folder: Path, deployments: int, rest_s: float) -> None:
    """Run the benchmark in an enclosure."""
    with running_kubernetes(folder) as control_plane:
        (api_server,) = (each.pid for each in descendants(os.getpid()) if "/kube-apiserver " in each.command)
        kubeconfig = control_plane.kubeconfig("admin")
        with running_headwater(folder, kubeconfig) as installation, installation.client() as client:
            reference = measure(installation, client, api_server, rest_s)
            started = time.monotonic()
            deploy_all(client, deployments)
            typer.echo(f"{deployments} deploys in {time.monotonic() - started:.0f} s")
            time.sleep(SETTLE_S)
            report(deployments, measure(installation, client, api_server, rest_s), reference)


def report(deployments: int, figures: Figures, reference: Figures) -> None:
    """Print the figures and the references."""
    for name, each in ((f"{deployments} deployments", figures), ("  reference: none", reference)):
        typer.echo(
            f"{name}: controller {100 * each.cpu:.1f} % of a core at rest, {each.memory_mb:.0f} MB; API server "
            f"{100 * each.api_server_cpu:.1f} %; a further deploy: median {statistics.median(each.deploy_s):.2f} s, "
            f"maximum {max(each.deploy_s):.2f} s"
        )


def main(deployments: int = 1000, rest: float = 60) -> None:
    """Run the benchmark, or say what it lacks.

    `rest` is the length of a measurement at rest, in seconds: a multiple of the period of each repeated work.
    """
    if reason := missing():
        typer.echo(reason)
        return
    built(), built_kwok()
    if enclosure.folder() is None:
        command = [sys.executable, "-m", "benches.many_deployments", f"--deployments={deployments}", f"--rest={rest}"]
        raise typer.Exit(enclosure.run(command))
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), deployments, rest)


if __name__ == "__main__":
    typer.run(main)
