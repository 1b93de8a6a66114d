"""Prometheus metrics of single pipelines, from the last heartbeats of their workers.

They are served on a separate port, since their number grows with the number of deployments. Counters start at 0 with
each worker process, as Prometheus expects, except the number of restarts. The counters of the endpoint `deploy/metrics`
continue after a restart.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.errors import BrokerUnavailable, OrchestratorUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.deployment import ObservedWorker
from headwater.model.metric import (
    COUNT_TYPES,
    DURATION_TYPES,
    TRANSFORM_COUNT_TYPES,
    CountType,
    DurationType,
    TransformCountType,
    bin_value,
    upper_bound,
)
from headwater.model.worker_protocol import Heartbeat, WorkerSnapshot
from headwater.model.worker_spec import PubSubPull, WorkerSpec
from headwater.orchestrators.base import Orchestrator

log = structlog.get_logger(__name__)

PREFIX = "headwater_pipeline_"
LABELS = ("config_id", "deployment_id")
WORKER_LABELS = (*LABELS, "worker")
TRANSFORM_LABELS = (*WORKER_LABELS, "transform_uid")
BOUNDS_MS = tuple(0.1 * 2 ** (step / 2) for step in range(41))
"""The bounds of the histograms: from 0.1 ms to 105 s, each √2 times the previous one."""

_COUNTS: dict[CountType, str] = {
    "messages_received": "Records read from the source.",
    "messages_sent": "Records acknowledged by a sink, once per sink.",
    "processor_error": "Records that a transform could not process.",
    "output_error": "Records that a sink rejected.",
}
_TRANSFORM_COUNTS: dict[TransformCountType, str] = {
    "received": "Records that a transform received.",
    "sent": "Records that a transform passed on.",
    "dropped": "Records that a transform received, without an output and without an error.",
    "errors": "Records that a transform could not process.",
}
_TIMES: dict[DurationType, str] = {
    "total_latency": "From the source record's timestamp to the sink's acknowledgement.",
    "processing_latency": "From the read of a record until it was handed to the producer.",
    "data_age": "Delivery time minus the record's event time, for a sample of the records.",
    "lookup_latency": "From a lookup request to Valkey or Redis to the reply.",
}


class PipelineCollector(Collector):
    """Collects the metrics of all pipelines.

    Args:
        orchestrator: The orchestrator that runs the workers.
        read_lag: Returns the lag by consumer group. Its first argument is the cluster; None is the installation's own.
        unknown_deployments: Returns the deployments that the last sweep found and the database does not record.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        read_lag: Callable[[KafkaAccess | None, Collection[str]], Mapping[str, int]],
        unknown_deployments: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._unknown_deployments = unknown_deployments
        self._orchestrator = orchestrator
        self._read_lag = read_lag

    def describe(self) -> Iterable[Metric]:
        """Return nothing: no metric is known before a scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. The lag is omitted while Kafka is unavailable."""
        try:
            all_snapshots = self._orchestrator.worker_snapshots()
            snapshots = [each for each in all_snapshots if each.spec.redrive is None]
            workers = [(each, self._worker(each)) for each in snapshots]
        except OrchestratorUnavailable as error:
            log.warning("the metrics of pipelines can't be read", reason=error.detail)
            return
        yield from (_counter(name, snapshots) for name in COUNT_TYPES)
        yield from (_histogram(name, snapshots) for name in DURATION_TYPES)
        yield from (_transform_counter(name, snapshots) for name in TRANSFORM_COUNT_TYPES)
        yield _transform_times(snapshots)
        yield _ready(snapshots)
        yield from _worker_states(workers)
        yield _redriven(all_snapshots)
        yield self._lags(snapshots)
        yield GaugeMetricFamily(
            "headwater_unknown_deployments",
            "Deployments with resources that the database does not record (see `headwater sweep`).",
            len(self._unknown_deployments()),
        )

    def _worker(self, snapshot: WorkerSnapshot) -> ObservedWorker | None:
        """Return the observed state of a worker; None when it has ended since the snapshot."""
        workers = self._orchestrator.status(snapshot.spec.deployment_id)
        return next((worker for worker in workers if worker.name == snapshot.worker), None)

    def _lags(self, snapshots: Sequence[WorkerSnapshot]) -> Metric:
        family = GaugeMetricFamily(f"{PREFIX}lag", "Records of the source that are not processed yet.", labels=LABELS)
        for access, groups in _specs_by_cluster(snapshots).items():
            try:
                lags = self._read_lag(access, groups)
            except BrokerUnavailable as error:
                log.warning("the lag of pipelines is not known", reason=error.detail)
                continue
            for group, lag in lags.items():
                family.add_metric((groups[group].config_id, groups[group].deployment_id), lag)
        return family


def _specs_by_cluster(snapshots: Sequence[WorkerSnapshot]) -> dict[KafkaAccess | None, dict[str, WorkerSpec]]:
    """Return the spec of each consumer group, by cluster and by group.

    Sources on Pub/Sub are omitted, since their lag can't be read.
    """
    specs_by_cluster: dict[KafkaAccess | None, dict[str, WorkerSpec]] = {}
    for spec in (snapshot.spec for snapshot in snapshots):
        if not isinstance(spec.source, PubSubPull):
            specs_by_cluster.setdefault(spec.source, {})[spec.source_group] = spec
    return specs_by_cluster


def _labels(snapshot: WorkerSnapshot) -> tuple[str, str, str]:
    return snapshot.spec.config_id, snapshot.spec.deployment_id, snapshot.worker


def _heartbeats(snapshots: Sequence[WorkerSnapshot]) -> Iterator[tuple[tuple[str, str, str], Heartbeat]]:
    return ((_labels(snapshot), snapshot.heartbeat) for snapshot in snapshots if snapshot.heartbeat is not None)


def _counter(name: CountType, snapshots: Sequence[WorkerSnapshot]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}{name}", _COUNTS[name], labels=WORKER_LABELS)
    for labels, heartbeat in _heartbeats(snapshots):
        family.add_metric(labels, heartbeat.counters.get(name, 0))
    return family


def _transform_counter(name: TransformCountType, snapshots: Sequence[WorkerSnapshot]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}transform_{name}", _TRANSFORM_COUNTS[name], labels=TRANSFORM_LABELS)
    for labels, heartbeat in _heartbeats(snapshots):
        for uid, totals in heartbeat.transforms.items():
            family.add_metric((*labels, uid), getattr(totals, name))
    return family


def _transform_times(snapshots: Sequence[WorkerSnapshot]) -> Metric:
    """Return the sum of the times and the number of records of each transform.

    A histogram for each transform would be too large.
    """
    family = SummaryMetricFamily(
        f"{PREFIX}transform_processing_latency_seconds",
        "From the start of a transform with a batch until its result, for each record of the batch.",
        labels=TRANSFORM_LABELS,
    )
    for labels, heartbeat in _heartbeats(snapshots):
        for uid, totals in heartbeat.transforms.items():
            family.add_metric((*labels, uid), totals.received, totals.processing_ms / 1000)
    return family


def _ready(snapshots: Sequence[WorkerSnapshot]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}worker_ready", "1 when the worker is ready.", labels=WORKER_LABELS)
    for snapshot in snapshots:
        family.add_metric(_labels(snapshot), snapshot.is_ready)
    return family


def _worker_states(workers: Iterable[tuple[WorkerSnapshot, ObservedWorker | None]]) -> Iterable[Metric]:
    restarts = CounterMetricFamily(
        f"{PREFIX}worker_restarts", "How often the worker was started again after it died.", labels=WORKER_LABELS
    )
    crash_looping = GaugeMetricFamily(
        f"{PREFIX}worker_crash_looping",
        "1 while the worker waits for its next start after repeated deaths, or many records crash the scripts.",
        labels=WORKER_LABELS,
    )
    oom_killed = GaugeMetricFamily(
        f"{PREFIX}worker_oom_killed",
        "1 for 15 minutes after the worker was killed because it used too much memory.",
        labels=WORKER_LABELS,
    )
    for snapshot, worker in workers:
        if worker is not None:
            restarts.add_metric(_labels(snapshot), worker.restart_count)
            crash_looping.add_metric(_labels(snapshot), worker.is_crash_looping)
            oom_killed.add_metric(_labels(snapshot), worker.is_oom_killed)
    return restarts, crash_looping, oom_killed


def _redriven(snapshots: Iterable[WorkerSnapshot]) -> Metric:
    """Return how many dead letters the worker of each running redrive has read."""
    family = CounterMetricFamily(
        "headwater_redrive_messages_received", "Dead letters that the redrive's worker has read.", labels=WORKER_LABELS
    )
    for snapshot in snapshots:
        if snapshot.spec.redrive is not None:
            counters = {} if snapshot.heartbeat is None else snapshot.heartbeat.counters
            family.add_metric(_labels(snapshot), counters.get("messages_received", 0))
    return family


def _histogram(name: DurationType, snapshots: Sequence[WorkerSnapshot]) -> Metric:
    family = HistogramMetricFamily(f"{PREFIX}{name}_seconds", _TIMES[name], labels=WORKER_LABELS)
    for labels, heartbeat in _heartbeats(snapshots):
        bins = heartbeat.times.get(name, {})
        total_ms = sum(bin_value(bin_) * count for bin_, count in bins.items())
        family.add_metric(labels, _buckets(bins), total_ms / 1000)
    return family


def _buckets(bins: Mapping[int, int]) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound in seconds.

    A bin that spans a bound is counted above the bound.
    """
    counts = [0] * (len(BOUNDS_MS) + 1)
    for bin_, count in bins.items():
        counts[bisect_left(BOUNDS_MS, upper_bound(bin_))] += count
    bounds = [*(f"{bound / 1000:.6g}" for bound in BOUNDS_MS), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))
