"""The soak: everything runs for hours under steady load and steady change, and nothing grows."""

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

from tests.acceptance.stack import Stack
from tests.chaos.load import SCRIPT
from tests.chaos.trial import Flow, Installation, Options, Report, run
from tests.support.processes import descendants

KINDS = ("filter", "v8", "contains")
CHANGED = "v8"
"""The pipeline whose script changes; the others' workers live as long as the run."""
MIB = 1 << 20
PAGE_BYTES = 4096
CALLS_AT_ONCE = 40
GROWTH_MIB = 1.0
GROWTH_PER_S = 1800.0
JUDGED_FROM_S = 2700.0
"""In a shorter run what a new process needs would be taken for growth: only content and changes are judged then."""
OWN = ("parent", "controller", "api", "worker")
"""Judged by the slope of their memory; in the others a garbage collector or the data itself decides."""


@dataclass(frozen=True)
class Pace:
    """hours: the whole run. change_s: between two changes of a script; sample_s: between two samples."""

    hours: float
    change_s: float = 60.0
    sample_s: float = 10.0


@dataclass
class Series:
    """Samples of one process, or of those that followed each other in its place. seconds: since the beginning."""

    seconds: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    descriptors: list[float] = field(default_factory=list)
    threads: list[float] = field(default_factory=list)

    def growth(self) -> float:
        """Growth of memory over the last two thirds, in MiB per half an hour: the slope of a line through it."""
        start = len(self.mib) // 3
        if len(self.mib) - start < 2:
            return 0.0
        line = statistics.linear_regression(self.seconds[start:], self.mib[start:])
        return float(line.slope) * GROWTH_PER_S


def soak(directory: Path, options: Options, pace: Pace) -> Report:
    """One soak. Its samples are in samples.jsonl in the directory."""
    return run(directory, options, lambda made, report: _Soak(made, report, pace).run(directory / "samples.jsonl"))


class _Soak:
    def __init__(self, made: Installation, report: Report, pace: Pace) -> None:
        self._made = made
        self._report = report
        self._pace = pace
        self._series: dict[str, Series] = {}
        self._lags: list[float] = []
        self._processes: list[float] = []
        self._changes = 0

    def run(self, path: Path) -> None:
        """Change and sample until the time is over, then judge."""
        self._warm_up()
        began = time.monotonic()
        changes, samples = began + self._pace.change_s, began
        with self._made.stack.client() as client, path.open("w") as out:
            while (now := time.monotonic()) < began + self._pace.hours * 3600:
                if now >= changes:
                    self._change(client)
                    changes += self._pace.change_s
                if now >= samples:
                    self._sample(now - began, out)
                    samples += self._pace.sample_s
                time.sleep(0.1)
        self._judge()

    def _warm_up(self) -> None:
        """An API process opens its connections and threads when it has several calls at once for the first time."""
        with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
            list(pool.map(self._call, range(10 * CALLS_AT_ONCE)))

    def _call(self, _: int) -> None:
        with self._made.stack.client() as client:
            assert client.get("/api/v1/flow").status_code == 200

    def _change(self, client: httpx2.Client) -> None:
        flow = next(flow for flow in self._made.flows if flow.name == CHANGED)
        self._changes += 1
        script = f"{SCRIPT}\n// change {self._changes}"
        url = f"/api/v1/flow/{flow.made.id}/transforms/{flow.made.uid()}"
        answer = client.patch(url, json={"type": "v8", "script": script})
        if answer.status_code != 200:
            self._report.faults.append(f"change {self._changes} answered {answer.status_code}: {answer.text}")

    def _sample(self, seconds: float, out: TextIO) -> None:
        assert self._made.feeder is not None
        seen = dict(roles(self._made.stack, self._made.flows))
        sampled = {role: measured for role, pids in seen.items() if (measured := measure(pids)) is not None}
        for role, (mib, descriptors, threads) in sampled.items():
            series = self._series.setdefault(role, Series())
            series.seconds.append(seconds)
            series.mib.append(mib)
            series.descriptors.append(descriptors)
            series.threads.append(threads)
        self._lags.append(self._made.feeder.count - min(f.witness.account.reached for f in self._made.flows))
        self._processes.append(sum(map(len, seen.values())))
        out.write(json.dumps({"s": round(seconds, 1), "lag": self._lags[-1], "roles": sampled}) + "\n")
        out.flush()

    def _judge(self) -> None:
        judged = self._pace.hours * 3600 >= JUDGED_FROM_S
        if judged:
            self._report.faults += self._growth()
        self._report.more |= {
            "changes": self._changes,
            "growth_is_judged": judged,
            "lag": {"median": statistics.median(self._lags), "max": max(self._lags)},
            "processes": {role: _described(series) for role, series in sorted(self._series.items())},
        }

    def _growth(self) -> Iterator[str]:
        for role, series in self._series.items():
            if role.startswith(OWN) and series.growth() > GROWTH_MIB:
                yield f"{role} grows by {series.growth():.2f} MiB in half an hour"
            judged = ("threads",) if role == "kafka" else ("descriptors", "threads")
            yield from (f"{role}: more {what}" for what in judged if grown(getattr(series, what)))
        if grown(self._processes):
            yield "more processes"
        if grown(self._lags, self._report.options["rate"]):
            yield "the lag grows"


def _described(series: Series) -> dict[str, float]:
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
    """True when the last third is above the one before it, median against median."""
    third = len(values) // 3
    return third > 0 and statistics.median(values[-third:]) > statistics.median(values[third : 2 * third]) + tolerated


def roles(stack: Stack, flows: Iterable[Flow]) -> Iterator[tuple[str, list[int]]]:
    """The processes by what they are for."""
    assert stack.process is not None
    yield "parent", [stack.process.pid]
    yield "controller", stack.below(" controller")
    yield from ((f"api {number}", [pid]) for number, pid in enumerate(sorted(stack.below(" api "))))
    yield "kafka", stack.below("kafka.Kafka")
    yield "valkey", stack.below("valkey-server")
    for flow in flows:
        workers = stack.workers_of(flow.made)
        yield f"worker {flow.name}", workers
        below = itertools.chain.from_iterable(map(descendants, workers))
        yield f"script {flow.name}", [process.pid for process in below if "deno run" in process.command]


def measure(pids: list[int]) -> tuple[float, int, int] | None:
    """The most of resident MiB, descriptors and threads that one of them has; None when all are gone."""
    found = [one for pid in pids if (one := _measure(pid)) is not None]
    if not found:
        return None
    mib, descriptors, threads = zip(*found, strict=True)
    return max(mib), max(descriptors), max(threads)


def _measure(pid: int) -> tuple[float, int, int] | None:
    try:
        process = psutil.Process(pid)
        return round(process.memory_info().rss / MIB, 2), process.num_fds(), process.num_threads()
    except psutil.NoSuchProcess:
        return None
