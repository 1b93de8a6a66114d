"""The soak test, in which no process may grow while pipelines run for hours.

The load is constant, and a script changes.
"""

import itertools
import json
import statistics
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import httpx2
import psutil

from tests.acceptance.installation import Installation
from tests.chaos.load import SCRIPT
from tests.chaos.run import Environment, RunningPipeline, RunOptions, RunReport, run
from tests.support.processes import descendants

KINDS = ("filter", "v8", "contains")
CHANGED = "v8"
"""The pipeline whose script changes. The workers of the other pipelines live as long as the run."""
MIB = 1 << 20
PAGE_BYTES = 4096
CALLS_AT_ONCE = 40
GROWTH_MIB = 1.0
GROWTH_PER_S = 1800.0
MIN_GROWTH_RUN_S = 2700.0
"""Runs shorter than this are not checked for growth, since new processes still grow at first."""
OWN = ("parent", "controller", "api", "worker")
"""The roles whose memory must not grow. The memory of other roles depends on a garbage collector or on the data."""


@dataclass(frozen=True)
class Pace:
    """The timing of a run.

    Attributes:
        hours: The length of the run.
        change_s: The time between changes of the script.
        sample_s: The time between samples.
    """

    hours: float
    change_s: float = 60.0
    sample_s: float = 10.0


@dataclass
class Series:
    """Samples of one role, whose process may have been replaced.

    Attributes:
        seconds: The time of each sample since the beginning of the run.
    """

    seconds: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    descriptors: list[float] = field(default_factory=list)
    threads: list[float] = field(default_factory=list)

    def growth(self) -> float:
        """Return the growth of memory in MiB per half hour.

        It is the slope of a line through the last two thirds of the samples.
        """
        start = len(self.mib) // 3
        if len(self.mib) - start < 2:
            return 0.0
        line = statistics.linear_regression(self.seconds[start:], self.mib[start:])
        return float(line.slope) * GROWTH_PER_S


def soak(directory: Path, options: RunOptions, pace: Pace) -> RunReport:
    """Run one soak test. Write its samples to samples.jsonl in the directory."""
    return run(
        directory,
        options,
        lambda environment, report: _SoakTest(environment, report, pace).run(directory / "samples.jsonl"),
    )


class _SoakTest:
    def __init__(self, environment: Environment, report: RunReport, pace: Pace) -> None:
        self._environment = environment
        self._report = report
        self._pace = pace
        self._series: dict[str, Series] = {}
        self._lags: list[float] = []
        self._processes: list[float] = []
        self._changes = 0

    def run(self, path: Path) -> None:
        """Change the script and sample processes until the end of the run, then check the samples."""
        self._warm_up()
        began = time.monotonic()
        changes, samples = began + self._pace.change_s, began
        with self._environment.installation.client() as client, path.open("w") as out:
            while (now := time.monotonic()) < began + self._pace.hours * 3600:
                if now >= changes:
                    self._change(client)
                    changes += self._pace.change_s
                if now >= samples:
                    self._sample(now - began, out)
                    samples += self._pace.sample_s
                time.sleep(0.1)
        self._check_results()

    def _warm_up(self) -> None:
        """Send concurrent requests before the first sample.

        On them, each API process opens its connections and threads for the first time.
        """
        with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
            list(pool.map(self._call, range(10 * CALLS_AT_ONCE)))

    def _call(self, _: int) -> None:
        with self._environment.installation.client() as client:
            assert client.get("/api/v1/flow").status_code == 200

    def _change(self, client: httpx2.Client) -> None:
        pipeline = next(pipeline for pipeline in self._environment.pipelines if pipeline.name == CHANGED)
        self._changes += 1
        script = f"{SCRIPT}\n// change {self._changes}"
        url = f"/api/v1/flow/{pipeline.deployed.id}/transforms/{pipeline.deployed.uid()}"
        response = client.patch(url, json={"type": "v8", "script": script})
        if response.status_code != 200:
            self._report.faults.append(f"change {self._changes} failed with {response.status_code}: {response.text}")

    def _sample(self, seconds: float, out: TextIO) -> None:
        assert self._environment.feeder is not None
        pids_by_role = dict(roles(self._environment.installation, self._environment.pipelines))
        sampled = {role: measured for role, pids in pids_by_role.items() if (measured := measure(pids)) is not None}
        for role, (mib, descriptors, threads) in sampled.items():
            series = self._series.setdefault(role, Series())
            series.seconds.append(seconds)
            series.mib.append(mib)
            series.descriptors.append(descriptors)
            series.threads.append(threads)
        self._lags.append(
            self._environment.feeder.count
            - min(pipeline.consumer.verifier.reached for pipeline in self._environment.pipelines)
        )
        self._processes.append(sum(map(len, pids_by_role.values())))
        out.write(json.dumps({"s": round(seconds, 1), "lag": self._lags[-1], "roles": sampled}) + "\n")
        out.flush()

    def _check_results(self) -> None:
        is_long_enough = self._pace.hours * 3600 >= MIN_GROWTH_RUN_S
        if is_long_enough:
            self._report.faults += self._growth()
        self._report.figures |= {
            "changes": self._changes,
            "growth_is_checked": is_long_enough,
            "lag": {"median": statistics.median(self._lags), "max": max(self._lags)},
            "processes": {role: _statistics(series) for role, series in sorted(self._series.items())},
        }

    def _growth(self) -> Iterator[str]:
        for role, series in self._series.items():
            if role.startswith(OWN) and series.growth() > GROWTH_MIB:
                yield f"{role} grows by {series.growth():.2f} MiB in half an hour"
            counts = ("threads",) if role == "kafka" else ("descriptors", "threads")
            yield from (f"{role}: more {name}" for name in counts if grown(getattr(series, name)))
        if grown(self._processes):
            yield "more processes"
        if grown(self._lags, self._report.options["rate"]):
            yield "the lag grows"


def _statistics(series: Series) -> dict[str, float]:
    return {
        "samples": len(series.mib),
        "mib_first": series.mib[0],
        "mib_last": series.mib[-1],
        "mib_max": max(series.mib),
        "mib_per_half_hour": round(series.growth(), 2),
        "descriptors_first": series.descriptors[0],
        "descriptors_last": series.descriptors[-1],
        "threads_first": series.threads[0],
        "threads_last": series.threads[-1],
    }


def grown(values: list[float], tolerated: float = 1.0) -> bool:
    """Return whether values have grown by more than `tolerated`.

    The medians of the second and of the last third are compared.
    """
    third = len(values) // 3
    return third > 0 and statistics.median(values[-third:]) > statistics.median(values[third : 2 * third]) + tolerated


def roles(installation: Installation, pipelines: Iterable[RunningPipeline]) -> Iterator[tuple[str, list[int]]]:
    """Yield each role and the ids of its processes."""
    assert installation.process is not None
    yield "parent", [installation.process.pid]
    yield "controller", installation.processes(" controller")
    yield from ((f"api {number}", [pid]) for number, pid in enumerate(sorted(installation.processes(" api "))))
    yield "kafka", installation.processes("kafka.Kafka")
    yield "valkey", installation.processes("valkey-server")
    for pipeline in pipelines:
        workers = installation.workers_of(pipeline.deployed)
        yield f"worker {pipeline.name}", workers
        below = itertools.chain.from_iterable(map(descendants, workers))
        yield f"script {pipeline.name}", [process.pid for process in below if "deno run" in process.command]


def measure(pids: list[int]) -> tuple[float, int, int] | None:
    """Return the maximum of resident MiB, descriptors and threads over these processes.

    Return None if all have ended.
    """
    measured = [figures for pid in pids if (figures := _measure(pid)) is not None]
    if not measured:
        return None
    mib, descriptors, threads = zip(*measured, strict=True)
    return max(mib), max(descriptors), max(threads)


def _measure(pid: int) -> tuple[float, int, int] | None:
    try:
        process = psutil.Process(pid)
        return round(process.memory_info().rss / MIB, 2), process.num_fds(), process.num_threads()
    except psutil.NoSuchProcess:
        return None
