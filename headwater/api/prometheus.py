"""Prometheus metrics of the API: requests, and the CPU time and memory of its processes.

Several API processes share one port, so a scrape reaches any of them. The processes share their values in a directory.
When prometheus-client is imported, it chooses by the environment variable PROMETHEUS_MULTIPROC_DIR whether values are
in memory or in files of this directory.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from headwater.errors import SetupError

OPENMETRICS = "application/openmetrics-text"
CACHE_S = 1.0
DURATION_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class PrometheusMetrics:
    """Metrics of one API process.

    Args:
        directory: The directory in which all API processes of one port share their values, as in
            PROMETHEUS_MULTIPROC_DIR; None when there is a single process.

    Raises SetupError when `directory` is given but PROMETHEUS_MULTIPROC_DIR was not set before the process started.
    """

    def __init__(self, directory: Path | None) -> None:
        if directory and values.ValueClass is values.MutexValue:
            raise SetupError(f"Start the API process with PROMETHEUS_MULTIPROC_DIR={directory}.")
        self._directory = directory
        self._cached: dict[str, bytes] = {}
        self._cached_at = -CACHE_S
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "headwater_http_request_duration_seconds",
            "Time from a request's head to the end of its response; for an event stream, to its headers.",
            ["method", "route"],
            buckets=DURATION_BUCKETS_S,
            registry=self._registry,
        )
        self._requests = Counter(
            "headwater_http_requests",
            "Requests, by the status of the response; 0 when no response was sent.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._uncounted = Counter(
            "headwater_rate_limit_uncounted",
            "Requests that the rate limit could not count because Valkey or Redis was unavailable, by outcome.",
            ["outcome"],
            registry=self._registry,
        )
        for outcome in ("passed", "refused"):
            self._uncounted.labels(outcome)
        self._refused = Counter(
            "headwater_http_refused",
            "Requests and connections that the server refused before the application saw them, by problem type.",
            ["problem"],
            registry=self._registry,
        )
        self._dependencies = Gauge(
            "headwater_dependency_available",
            "1 for each dependency that GET /readyz reports as ok, else 0.",
            ["dependency"],
            registry=self._registry,
            multiprocess_mode="mostrecent",
        )
        self._known_dependencies: set[str] = set()
        if directory is None:
            ProcessCollector(registry=self._registry)

    def record_uncounted(self, *, passed: bool) -> None:
        """Record a request that the rate limit could not count.

        Args:
            passed: Whether the request was executed all the same.
        """
        self._uncounted.labels("passed" if passed else "refused").inc()

    def record_refusal(self, problem: str) -> None:
        """Record a request or connection that the server refused.

        Args:
            problem: The name of the problem type.
        """
        self._refused.labels(problem).inc()

    def record_availability(self, availability: Mapping[str, bool]) -> None:
        """Record which dependencies are available.

        A background loop is in `availability` only while it fails, so a name that is missing there is available again.
        """
        for name in self._known_dependencies - availability.keys():
            self._dependencies.labels(name).set(1)
        for name, is_available in availability.items():
            self._dependencies.labels(name).set(is_available)
        self._known_dependencies.update(availability)

    @property
    def is_stale(self) -> bool:
        """Whether the cached metrics are too old.

        The next exposition then collects all metrics again.
        """
        return time.monotonic() >= self._cached_at + CACHE_S

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record a request that has ended. Status 0 means that no response was sent."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics and their content type.

        The format is OpenMetrics when the client accepts it, else Prometheus' text format.

        Callers without a key can request the metrics as often as they like, so the metrics are cached for CACHE_S
        seconds. A client could ask for any version of the format in its Accept header, and so bypass the cache.
        Therefore prometheus-client gets a fixed value instead of this header.
        """
        encode, content_type = choose_encoder(OPENMETRICS if OPENMETRICS in accept else "")
        if self.is_stale:
            self._cached, self._cached_at = {}, time.monotonic()
        if content_type not in self._cached:
            self._cached[content_type] = encode(self._collector())
        return self._cached[content_type], content_type

    def _collector(self) -> Collector:
        """Return the collector of this process, or of all processes that share the directory.

        The collector of several processes reads their files on each scrape.
        """
        if self._directory is None:
            return self._registry
        shared = CollectorRegistry()
        MultiProcessCollector(shared, path=str(self._directory))  # type: ignore[no-untyped-call]  # it has no types
        shared.register(_ProcessesCollector(self._directory))
        return shared


class _ProcessesCollector(Collector):
    """Collects the CPU time and memory of each running process of a shared directory, by pid."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for pid in self._pids():
            for metric in ProcessCollector(pid=_function_returning(pid), registry=None).collect():
                family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                family.samples.extend(sample._replace(labels={"pid": str(pid)}) for sample in metric.samples)
        yield from families.values()

    def _pids(self) -> list[int]:
        """Return the pids in the names of prometheus-client's files, which are `<kind>_<pid>.db`."""
        return sorted({int(file.stem.rpartition("_")[2]) for file in self._directory.glob("*_*.db")})


def _function_returning(pid: int) -> Callable[[], int]:
    """Return a function that returns the pid, as ProcessCollector needs it."""
    return lambda: pid
