"""The memory and CPU of idle pipelines: `python -m benches.idle`.

Thirty pipelines with a script are deployed, process one record each, and are then idle. Memory is the resident memory
of a worker and its V8 processes; shared pages count for each process. CPU is the sum over all workers and their child
processes. The references of the same run are the memory of a bare Python interpreter and the CPU of Kafka's process.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import httpx2
import typer

from benches._installation import running_installation
from tests.acceptance.installation import Deployed, Installation, deploy, pipeline, reading
from tests.support.processes import cpu_seconds, descendants, rss_bytes

ENTITY = "log"
SCRIPT = {"type": "v8", "script": "function process(r) { r.seen = true; return r; }"}
SETTLE_S = 30.0
"""This is longer than workers keep freed memory before they return it."""


def deploy_all(client: httpx2.Client, installation: Installation, count: int) -> list[Deployed]:
    """Deploy `count` pipelines, and return when each has processed one record."""
    deployments = [
        deploy(client, pipeline(ENTITY, name=f"idle {number}", transforms=[SCRIPT])) for number in range(count)
    ]
    installation.feed("base", ENTITY, [{"n": 1, "log_index": 1}])
    for deployment in deployments:
        with reading(deployment.sink) as reader:
            reader.read(1)
    return deployments


def bare_interpreter_mb() -> float:
    """Return the resident memory of a Python interpreter that has imported nothing."""
    with subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        memory_mb = rss_bytes(process.pid) / 1e6
        process.terminate()
    return memory_mb


def share_of_a_core(pids: Sequence[int], seconds: float) -> float:
    """Return the CPU seconds per second that these processes use."""
    before, started = sum(map(cpu_seconds, pids)), time.monotonic()
    time.sleep(seconds)
    return (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - started)


def measure(installation: Installation, count: int, seconds: float) -> None:
    """Deploy the pipelines, wait until they are idle, and print their memory and CPU."""
    with installation.client() as client:
        deployments = deploy_all(client, installation, count)
    time.sleep(SETTLE_S)
    families = [
        [pid, *(child.pid for child in descendants(pid))]
        for deployment in deployments
        for pid in installation.workers_of(deployment)
    ]
    assert len(families) == count
    memory = [sum(map(rss_bytes, family)) / 1e6 for family in families]
    parts = [statistics.median(rss_bytes(family[at]) / 1e6 for family in families) for at in (0, 1)]
    share = share_of_a_core([pid for family in families for pid in family], seconds)
    kafka = share_of_a_core(installation.processes("kafka.Kafka"), seconds)
    typer.echo(
        f"{count} idle pipelines: {statistics.median(memory):.0f} MB each (max {max(memory):.0f}), worker and child "
        f"{parts[0]:.0f} + {parts[1]:.0f}; {100 * share:.1f} % of a core together; "
        f"{statistics.median(map(len, families)):.0f} processes each"
    )
    typer.echo(f"  reference: the bare interpreter {bare_interpreter_mb():.0f} MB; Kafka {100 * kafka:.1f} % of a core")


def main(pipelines: int = 30, seconds: float = 30) -> None:
    """Run the benchmark on a new installation."""
    with running_installation() as installation:
        measure(installation, pipelines, seconds)


if __name__ == "__main__":
    typer.run(main)
