"""What pipelines cost that have nothing to do: `python -m benches.idle`.

Thirty pipelines with a script, deployed, warmed up with one record each, then left alone. Memory is resident memory of
the worker and its V8 processes, what they share counted for each; CPU is that of all workers and children together.
Reference of the same run: the bare Python interpreter's memory, and what Kafka's process takes meanwhile.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import httpx2
import typer

from benches._installation import installation
from tests.acceptance.stack import Deployed, Stack, deploy, pipeline, reading
from tests.support.processes import cpu_seconds, descendants, rss_bytes

ENTITY = "log"
SCRIPT = {"type": "v8", "script": "function process(r) { r.seen = true; return r; }"}
SETTLE_S = 30.0
"""Longer than workers keep memory that was needed for a while."""


def deploy_all(client: httpx2.Client, stack: Stack, count: int) -> list[Deployed]:
    """Pipelines that have processed a record."""
    made = [deploy(client, pipeline(ENTITY, name=f"idle {number}", transforms=[SCRIPT])) for number in range(count)]
    stack.feed("base", ENTITY, [{"n": 1, "log_index": 1}])
    for one in made:
        with reading(one.sink) as reader:
            reader.read(1)
    return made


def bare_interpreter_mb() -> float:
    """Resident memory of Python alone."""
    with subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = rss_bytes(process.pid) / 1e6
        process.terminate()
    return found


def share_of_a_core(pids: Sequence[int], seconds: float) -> float:
    """CPU time per second."""
    before, began = sum(map(cpu_seconds, pids)), time.monotonic()
    time.sleep(seconds)
    return (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - began)


def measure(stack: Stack, count: int, seconds: float) -> None:
    """Deploy, wait, measure, tell."""
    with stack.client() as client:
        made = deploy_all(client, stack, count)
    time.sleep(SETTLE_S)
    families = [[pid, *(child.pid for child in descendants(pid))] for one in made for pid in stack.workers_of(one)]
    assert len(families) == count
    memory = [sum(map(rss_bytes, family)) / 1e6 for family in families]
    parts = [statistics.median(rss_bytes(family[at]) / 1e6 for family in families) for at in (0, 1)]
    share = share_of_a_core([pid for family in families for pid in family], seconds)
    kafka = share_of_a_core(stack.below("kafka.Kafka"), seconds)
    typer.echo(
        f"{count} idle pipelines: {statistics.median(memory):.0f} MB each (most {max(memory):.0f}), worker and child "
        f"{parts[0]:.0f} + {parts[1]:.0f}; {100 * share:.1f} % of a core together; "
        f"{statistics.median(map(len, families)):.0f} processes each"
    )
    typer.echo(f"  reference: the bare interpreter {bare_interpreter_mb():.0f} MB; Kafka {100 * kafka:.1f} % of a core")


def main(pipelines: int = 30, seconds: float = 30) -> None:
    """Run on an installation of its own."""
    with installation() as stack:
        measure(stack, pipelines, seconds)


if __name__ == "__main__":
    typer.run(main)
