"""Prometheus series of single pipelines, from the last heartbeats of their workers; no store is read.

They are served on a separate port, since their number grows with the number of deployments. Counters begin at 0 with
each worker's process, as Prometheus expects; the counters of `deploy/metrics` don't.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.errors import BrokerUnavailable, OrchestratorUnavailable
from headwater.model.metric import COUNT_TYPES, TIME_TYPES, CountType, TimeType, upper_bound, value_of
from headwater.model.worker import Heartbeat, KafkaAccess, PubSubPull, Pulse, WorkerSpec
from headwater.orchestrators.base import Orchestrator

log = structlog.get_logger(__name__)

PREFIX = "headwater_pipeline_"
LABELS = ("config_id", "deployment_id")
WORKER_LABELS = (*LABELS, "worker")
BOUNDS_MS = tuple(0.1 * 2 ** (step / 2) for step in range(41))
"""From 0.1 ms to 105 s, each √2 times the one before."""

_COUNTS: dict[CountType, str] = {
    "messages_received": "Records read from the source.",
    "messages_sent": "Records acknowledged by a sink, once per sink.",
    "processor_error": "Records that a transform could not process.",
    "output_error": "Records that a sink could not take.",
}
_TIMES: dict[TimeType, str] = {
    "total_latency": "From the source record's timestamp to the sink's acknowledgement.",
    "processing_latency": "From read to handed to the producer.",
    "data_age": "Delivery minus the record's own time, of a sample.",
    "lookup_latency": "From a batch's question to the set store to the answer.",
}


class PipelineCollector(Collector):
    """Collects the series of all pipelines.

    lag: The lag of groups on the own cluster (None) or another one; see brokers.base.Broker. unknown: The deployments
    that the last sweep found and the database does not know.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        lag: Callable[[KafkaAccess | None, Collection[str]], Mapping[str, int]],
        unknown: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._unknown = unknown
        self._orchestrator = orchestrator
        self._lag = lag

    def describe(self) -> Iterable[Metric]:
        """No series is known before a scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All series; the lag is missing while the broker is unavailable."""
        try:
            pulses = self._orchestrator.pulses()
        except OrchestratorUnavailable as error:
            log.warning("no series of pipelines", reason=error.detail)
            return
        yield from (_counter(name, pulses) for name in COUNT_TYPES)
        yield from (_histogram(name, pulses) for name in TIME_TYPES)
        yield _ready(pulses)
        yield self._lags(pulses)
        unknown = "Deployments on the broker that the database does not know (see `headwater sweep`)."
        yield GaugeMetricFamily("headwater_unknown_deployments", unknown, len(self._unknown()))

    def _lags(self, pulses: Sequence[Pulse]) -> Metric:
        family = GaugeMetricFamily(f"{PREFIX}lag", "Records of the source that are not processed yet.", labels=LABELS)
        for access, groups in _by_cluster(pulses).items():
            try:
                lags = self._lag(access, groups)
            except BrokerUnavailable as error:
                log.warning("the lag of pipelines is not known", reason=error.detail)
                continue
            for group, lag in lags.items():
                family.add_metric((groups[group].config_id, groups[group].deployment_id), lag)
        return family


def _by_cluster(pulses: Sequence[Pulse]) -> dict[KafkaAccess | None, dict[str, WorkerSpec]]:
    """The groups by cluster. Sources on Pub/Sub are left out, since Pub/Sub has no lag to read."""
    found: dict[KafkaAccess | None, dict[str, WorkerSpec]] = {}
    for spec in (pulse.spec for pulse in pulses):
        if not isinstance(spec.source, PubSubPull):
            found.setdefault(spec.source, {})[spec.source_group] = spec
    return found


def _labels(pulse: Pulse) -> tuple[str, str, str]:
    return pulse.spec.config_id, pulse.spec.deployment_id, pulse.worker


def _heard(pulses: Sequence[Pulse]) -> Iterator[tuple[tuple[str, str, str], Heartbeat]]:
    return ((_labels(pulse), pulse.heartbeat) for pulse in pulses if pulse.heartbeat is not None)


def _counter(name: CountType, pulses: Sequence[Pulse]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}{name}", _COUNTS[name], labels=WORKER_LABELS)
    for labels, heartbeat in _heard(pulses):
        family.add_metric(labels, heartbeat.counters.get(name, 0))
    return family


def _ready(pulses: Sequence[Pulse]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}worker_ready", "1 when the worker is ready.", labels=WORKER_LABELS)
    for pulse in pulses:
        family.add_metric(_labels(pulse), pulse.is_ready)
    return family


def _histogram(name: TimeType, pulses: Sequence[Pulse]) -> Metric:
    family = HistogramMetricFamily(f"{PREFIX}{name}_seconds", _TIMES[name], labels=WORKER_LABELS)
    for labels, heartbeat in _heard(pulses):
        bins = heartbeat.times.get(name, {})
        total_ms = sum(value_of(bin_) * count for bin_, count in bins.items())
        family.add_metric(labels, _buckets(bins), total_ms / 1000)
    return family


def _buckets(bins: Mapping[int, int]) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound in seconds. A bin that a bound cuts belongs above it."""
    counts = [0] * (len(BOUNDS_MS) + 1)
    for bin_, count in bins.items():
        counts[bisect_left(BOUNDS_MS, upper_bound(bin_))] += count
    bounds = [*(f"{bound / 1000:.6g}" for bound in BOUNDS_MS), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))
