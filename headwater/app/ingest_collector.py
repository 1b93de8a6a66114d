"""The Prometheus metrics of an ingest."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.ingest.options import IngestOptions
from headwater.ingest.runner import COUNTS, IngestMetrics

LABELS: Final = ("ingest", "chain")


class IngestCollector(Collector):
    """Collects the metrics of one ingest. The counters start at 0 with the process."""

    def __init__(self, options: IngestOptions, metrics: IngestMetrics) -> None:
        self._label_values = (options.name, options.chain)
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        # This runs on a thread of the metrics server. Copying a dictionary is atomic. Iterating over the
        # live dictionary would raise RuntimeError here when the ingest adds a key meanwhile.
        metrics = self._metrics
        yield self._counter_by("records", "Records stored, by stream.", "stream", dict(metrics.records))
        yield self._counter("errors", "Failures of the node or of Kafka.", metrics.errors)
        yield self._counter("left_out", "Records that were too large for a topic, and left out.", metrics.left_out)
        skipped_help = "Entries of the source that were not converted to records, by reason."
        yield self._counter_by("skipped", skipped_help, "reason", dict(metrics.skipped))
        yield self._counter("gaps", "Ranges of the chain from which events are missing in the streams.", metrics.gaps)
        for name, count in dict(metrics.counts).items():
            yield self._counter(name, COUNTS[name], count)
        yield self._lag()

    def _counter(self, name: str, help_text: str, count: int) -> Metric:
        family = CounterMetricFamily(f"headwater_ingest_{name}", help_text, labels=LABELS)
        family.add_metric(self._label_values, count)
        return family

    def _counter_by(self, name: str, help_text: str, label: str, counts: Mapping[str, int]) -> Metric:
        family = CounterMetricFamily(f"headwater_ingest_{name}", help_text, labels=(*LABELS, label))
        for value, count in counts.items():
            family.add_metric((*self._label_values, value), count)
        return family

    def _lag(self) -> Metric:
        family = GaugeMetricFamily("headwater_ingest_lag_seconds", "Age of the newest event stored.", labels=LABELS)
        if self._metrics.time_ms:
            family.add_metric(self._label_values, time.time() - self._metrics.time_ms / 1000)
        return family
