"""The Prometheus metrics of an ingest, which are read while the ingest counts."""

from collections import Counter
from typing import Any

import pytest
from prometheus_client.core import CounterMetricFamily

from headwater.app.ingest_collector import IngestCollector
from headwater.ingest.hyperliquid.options import HyperliquidOptions
from headwater.ingest.runner import IngestMetrics


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> IngestMetrics:
    """Metrics that the ingest changes whenever a sample is added.

    The ingest then counts a further stream, a further reason and a further count.
    """
    metrics = IngestMetrics(
        records=Counter({"log": 3}), skipped=Counter({"late": 1}), counts=Counter({"blocks": 2, "retries": 1})
    )
    add_metric = CounterMetricFamily.add_metric

    def add_and_count(family: CounterMetricFamily, *arguments: Any, **options: Any) -> None:
        add_metric(family, *arguments, **options)
        metrics.records[f"stream {len(metrics.records)}"] += 1
        metrics.skipped[f"reason {len(metrics.skipped)}"] += 1
        metrics.counts["reorgs" if "failovers" in metrics.counts else "failovers"] += 1

    monkeypatch.setattr(CounterMetricFamily, "add_metric", add_and_count)
    return metrics


def test_the_ingest_may_count_during_a_scrape(metrics: IngestMetrics) -> None:
    options = HyperliquidOptions.model_validate({"name": "hl", "ws": "wss://node.example"})
    families = {family.name: family for family in IngestCollector(options, metrics).collect()}
    [records] = families["headwater_ingest_records"].samples
    assert (records.labels["stream"], records.value) == ("log", 3)
    assert {"headwater_ingest_skipped", "headwater_ingest_blocks", "headwater_ingest_retries"} <= families.keys()
