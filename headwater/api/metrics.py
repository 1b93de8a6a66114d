"""Prometheus metrics of the API processes: totals of requests, and what the processes use.

Several processes share one port, so a scrape reaches any of them: with a directory they share their values there.
prometheus-client decides between the two ways when it is imported, by the variable PROMETHEUS_MULTIPROC_DIR.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest, values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from headwater.errors import SetupError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_FOR_S = 1.0
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """directory: what the processes of one port share, named by PROMETHEUS_MULTIPROC_DIR too; None for one process.

    Raises SetupError when the variable was not set before the process started.
    """

    def __init__(self, directory: Path | None) -> None:
        if directory and values.ValueClass is values.MutexValue:
            raise SetupError(f"Start the API process with PROMETHEUS_MULTIPROC_DIR={directory}.")
        self._directory = directory
        self._made = b""
        self._made_at = -FRESH_FOR_S
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "headwater_http_request_duration_seconds",
            "Time from a request's first byte to the end of its response.",
            ["method", "route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._requests = Counter(
            "headwater_http_requests",
            "Requests answered, by status.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._uncounted = Counter(
            "headwater_rate_limit_uncounted",
            "Requests that could not be counted because the set store was away, by what became of them.",
            ["outcome"],
            registry=self._registry,
        )
        self._refused = Counter(
            "headwater_http_refused",
            "Requests and connections that the server refused before the application saw them, by kind of problem.",
            ["problem"],
            registry=self._registry,
        )
        if directory is None:
            ProcessCollector(registry=self._registry)

    def uncounted(self, *, passed: bool) -> None:
        """Count one request that the rate limit could not count."""
        self._uncounted.labels("passed" if passed else "refused").inc()

    def refused(self, problem: str) -> None:
        """Count one request or connection that the server refused; problem: the kind's name."""
        self._refused.labels(problem).inc()

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; status 0 means that it was never answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format, at most FRESH_FOR_S old: nobody needs a key to ask for them."""
        now = time.monotonic()
        if now >= self._made_at + FRESH_FOR_S:
            self._made, self._made_at = self._exposition(), now
        return self._made

    def _exposition(self) -> bytes:
        """Reads files when processes share them."""
        if self._directory is None:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared, path=str(self._directory))  # type: ignore[no-untyped-call]  # it has no types
        shared.register(_Processes(self._directory))
        return generate_latest(shared)


class _Processes(Collector):
    """What each living process of a shared directory uses, by pid."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for pid in self._pids():
            for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                family.samples.extend(s._replace(labels={"pid": str(pid)}) for s in metric.samples)
        yield from families.values()

    def _pids(self) -> list[int]:
        """prometheus-client names its files `<kind>_<pid>.db`."""
        return sorted({int(file.stem.rpartition("_")[2]) for file in self._directory.glob("*_*.db")})
