"""The elastic test, in which the number of workers follows a changing load.

At the edge, one worker needs nearly all of its CPU, so one worker and two both seem right.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.installation import in_background
from tests.chaos.feeder import Feeder
from tests.chaos.run import Environment, RunOptions, RunReport, run
from tests.support.processes import cpu_seconds
from tests.support.waiting import until

MAX_WORKERS = 4
STABLE_WITHIN_S = 90.0
UP_WITHIN_S, DOWN_WITHIN_S = 60.0, 600.0
SAMPLE_S = 1.0
MEASURED_S = 30.0
"""How long the CPU time per record is measured."""
SETTLES_S = 5.0
MEASURED_SHARE = 3
"""The CPU time is measured at the high rate divided by this."""
EDGE_BUSY = 0.85
"""The share of a core that one worker's scripts need at the edge."""


@dataclass(frozen=True)
class ElasticPhases:
    """The load over time.

    Attributes:
        low: Records per second before and after the high load.
        high: Records per second of the high load.
        high_s: How long the high load lasts.
        edge_s: How long the load is at the edge.
    """

    low: int
    high: int
    high_s: float
    edge_s: float


@dataclass
class WorkerCounts:
    """Samples the chosen number of workers, and keeps each change with its reason.

    Attributes:
        changes: The seconds since the start, the new number and the reason.
    """

    environment: Environment
    echo: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    changes: list[tuple[float, int, str]] = field(default_factory=list)
    lag: int = 0
    failures: int = 0

    def __call__(self, stop: threading.Event) -> None:
        """Sample until `stop` is set."""
        with self.environment.installation.client() as client:
            path = f"/api/v1/flow/{self.environment.pipelines[0].deployed.id}/deploy/stats"
            while not stop.wait(SAMPLE_S):
                response = client.get(path)
                if response.status_code != 200:
                    self.failures += 1
                    continue
                stats = response.json()
                self.lag = stats["lag"] or 0
                self._on_scaling(stats["scaling"])

    def _on_scaling(self, scaling: dict[str, Any]) -> None:
        if not self.changes or self.changes[-1][1] != scaling["workers"]:
            self.changes.append((self.now, scaling["workers"], scaling["reason"]))
            self.echo(f"{self.now:.0f} s: {scaling['workers']} workers. {scaling['reason']}")

    @property
    def now(self) -> float:
        """The seconds since the start."""
        return round(time.monotonic() - self.began, 1)

    @property
    def workers(self) -> int:
        """The present number of workers."""
        return self.changes[-1][1] if self.changes else 0

    def since(self, start: float) -> list[tuple[float, int, str]]:
        """Return the changes after a time."""
        return [change for change in self.changes if change[0] >= start]


def elastic(directory: Path, options: RunOptions, phases: ElasticPhases, echo: Callable[[str], None]) -> RunReport:
    """Run the test in an empty directory."""

    def disturb(environment: Environment, report: RunReport) -> None:
        counts = WorkerCounts(environment, echo)
        with in_background(counts):
            _follow(environment, phases, report, counts)
        report.figures["workers"] = counts.changes
        report.figures["phases"] = asdict(phases)

    report = run(directory, options, disturb)
    for name, result in report.pipelines.items():
        if result.repeats:
            report.faults.append(f"{name}: repeats: {result.repeats}")
    return report


def _follow(environment: Environment, phases: ElasticPhases, report: RunReport, counts: WorkerCounts) -> None:
    feeder = environment.feeder
    assert isinstance(feeder, Feeder)
    until(lambda: _is_stable(environment), STABLE_WITHIN_S, "a stable revision")
    cpu_per_record = _cpu_per_record(environment, feeder, phases.high // MEASURED_SHARE)
    feeder.rate = phases.low
    time.sleep(MEASURED_S)
    before = counts.workers
    _high(feeder, phases, report, counts)
    _low(feeder, phases, report, counts, before)
    edge = min(phases.high, int(EDGE_BUSY / cpu_per_record))
    report.figures |= {"cpu_us_per_record": round(cpu_per_record * 1e6, 1), "edge_rate": edge}
    _edge(feeder, phases, report, counts, edge)
    feeder.rate = phases.low


def _is_stable(environment: Environment) -> bool:
    with environment.installation.client() as client:
        response = client.get(f"/api/v1/flow/{environment.pipelines[0].deployed.id}/deploy")
        return bool(response.status_code == 200 and response.json()["condition"] == "Stable")


def _cpu_per_record(environment: Environment, feeder: Feeder, rate: int) -> float:
    """Return the CPU seconds that the scripts need for each record.

    At the low rate, batches are small and need more for each record.
    """
    feeder.rate = rate
    time.sleep(SETTLES_S)
    pids = environment.installation.sandboxes()
    cpu_before, count = sum(map(cpu_seconds, pids)), feeder.count
    time.sleep(MEASURED_S)
    return (sum(map(cpu_seconds, pids)) - cpu_before) / (feeder.count - count)


def _high(feeder: Feeder, phases: ElasticPhases, report: RunReport, counts: WorkerCounts) -> None:
    began, fed, feeder.rate = counts.now, feeder.count, phases.high
    time.sleep(phases.high_s)
    raised = counts.since(began)
    report.figures["high"] = {
        "fed_per_s": int((feeder.count - fed) / phases.high_s),
        "raised_after_s": [round(at - began, 1) for at, _, _ in raised],
        "workers": counts.workers,
        "lag_at_end": counts.lag,
    }
    if not raised:
        report.late.append(f"{phases.high} records/s did not raise the number of workers in {phases.high_s:.0f} s")
    elif raised[0][0] - began > UP_WITHIN_S:
        report.late.append(f"the number was raised after {raised[0][0] - began:.0f} s; target {UP_WITHIN_S:.0f} s")


def _low(feeder: Feeder, phases: ElasticPhases, report: RunReport, counts: WorkerCounts, workers_before: int) -> None:
    began, feeder.rate = counts.now, phases.low
    deadline = time.monotonic() + DOWN_WITHIN_S
    while counts.workers > workers_before and time.monotonic() < deadline:
        time.sleep(SAMPLE_S)
    lowered = counts.since(began)
    report.figures["low"] = {"lowered_after_s": [round(at - began, 1) for at, _, _ in lowered]}
    if counts.workers > workers_before:
        report.late.append(f"{counts.workers} workers still ran {DOWN_WITHIN_S:.0f} s after the high load")


def _edge(feeder: Feeder, phases: ElasticPhases, report: RunReport, counts: WorkerCounts, rate: int) -> None:
    began, numbers, feeder.rate = counts.now, [counts.workers], rate
    time.sleep(phases.edge_s)
    numbers += [workers for _, workers, _ in counts.since(began)]
    report.figures["edge"] = {"numbers": numbers, "lag_at_end": counts.lag}
    if changes_of_direction(numbers):
        report.faults.append(f"the number of workers changed back and forth at the edge: {numbers}")


def changes_of_direction(numbers: Sequence[int]) -> int:
    """Return how often a sequence of numbers turns from rising to falling or back."""
    steps = [after > before for before, after in itertools.pairwise(numbers)]
    return sum(after != before for before, after in itertools.pairwise(steps))
