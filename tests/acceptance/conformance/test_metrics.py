"""Section 2.5, and the metrics of section 4.2."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import FLOW, Owner, faults, json
from tests.acceptance.installation import Deployed, Installation, deployed, pipeline
from tests.support.waiting import until

TYPES = (
    "messages_received",
    "messages_sent",
    "total_latency",
    "processing_latency",
    "processor_error",
    "output_error",
    "data_age",
)
MEMBERS = {
    "messages_received": "messages_received_per_min",
    "messages_sent": "messages_sent_per_min",
    "total_latency": "total_latency",
    "processing_latency": "processing_latency",
    "processor_error": "processor_error_rate",
    "output_error": "output_error_rate",
    "data_age": "avg_data_age_ms",
}
COUNTED = {"messages_received": 101, "messages_sent": 160, "processor_error": 10, "output_error": 1}
AGE_S = 5
SCRIPT = """
function process(record) {
  if (record.n % 10 === 7) throw new Error("no sevens");
  if (record.n % 10 === 8) return null;
  return record.pad ? {pad: "x".repeat(record.pad)} : [record, record];
}"""
MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z")


def records() -> Iterator[dict[str, Any]]:
    """Return 100 records with a timestamp AGE_S ago, and a record with a long key.

    The output of the last record is too large for a topic.
    """
    then = datetime.fromtimestamp(time.time() - AGE_S, UTC).isoformat()
    for n in range(100):
        yield {"n": n, "block_timestamp": then}
    yield {"n": 100, "pad": 999_000, "transaction_hash": "0x" + "0" * 45_000, "block_timestamp": then}


class Measured:
    """A pipeline that has processed records, and its metrics."""

    def __init__(self, http: httpx2.Client, deployment: Deployed) -> None:
        self.id = deployment.id
        self.http = http

    def get(self, **query: str) -> Any:
        return json(self.http.get(f"{FLOW}/{self.id}/deploy/metrics", params=query))

    def sums(self) -> dict[str, float]:
        series = {one["metric_type"]: one["points"] for one in self.get()["metrics"]}
        return {name: sum(point["value"] for point in series[name]) for name in COUNTED}


@pytest.fixture(scope="module")
def measured(installation: Installation, alice: Owner) -> Iterator[Measured]:
    with deployed(alice.http, pipeline("log", transforms=[{"type": "v8", "script": SCRIPT}])) as deployment:
        measured = Measured(alice.http, deployment)
        installation.feed("base", "log", records())
        until(lambda: measured.sums()["messages_received"] >= COUNTED["messages_received"], what="the counts")
        yield measured


@pytest.mark.proves("1/monitoring")
class TestSeries:
    @pytest.mark.proves(
        "2.5/time-series.config_id",
        "2.5/time-series.metrics",
        "2.5/metric-types-messages_received-messages_sent-total_latency-processing_latency",
        "4.2/GET /api/v1/flow/{config_id}/deploy/metrics",
        "4.2/metrics.aggregated",
    )
    def test_every_metric_type(self, measured: Measured) -> None:
        body = measured.get()
        assert body == measured.get(aggregated="false")
        assert set(body) == {"config_id", "metrics"}
        assert body["config_id"] == measured.id
        assert [one["metric_type"] for one in body["metrics"]] == list(TYPES)
        for one in body["metrics"]:
            assert set(one) == {"metric_type", "points"}
            assert one["points"], one["metric_type"]
            assert all(set(point) == {"timestamp", "value"} for point in one["points"])
            assert all(MINUTE.fullmatch(point["timestamp"]) for point in one["points"])
            assert all(isinstance(point["value"], int | float) for point in one["points"])
            stamps = [point["timestamp"] for point in one["points"]]
            assert stamps == sorted(set(stamps))

    def test_counts_are_exact(self, measured: Measured) -> None:
        assert measured.sums() == COUNTED

    @pytest.mark.proves("4.2/metrics.time_range")
    def test_of_every_range(self, measured: Measured) -> None:
        assert measured.get() == measured.get(time_range="1h")
        for time_range, step_s in (("1d", 300), ("1w", 3600)):
            (received,) = measured.get(time_range=time_range, metrics="messages_received")["metrics"]
            assert sum(point["value"] for point in received["points"]) == COUNTED["messages_received"]
            for point in received["points"]:
                assert datetime.fromisoformat(point["timestamp"]).timestamp() % step_s == 0
        refused = measured.http.get(f"{FLOW}/{measured.id}/deploy/metrics", params={"time_range": "1y"})
        assert "/time_range" in faults(refused)

    @pytest.mark.proves("4.2/metrics.metrics")
    def test_selected_metric_types(self, measured: Measured) -> None:
        body = measured.get(metrics="data_age,messages_sent")
        assert {one["metric_type"] for one in body["metrics"]} == {"data_age", "messages_sent"}
        assert measured.get(metrics="all") == measured.get()
        for name in TYPES:
            body = measured.get(metrics=name, aggregated="true")
            assert set(body) == {"pipeline_id", "time_range", MEMBERS[name]}
        refused = measured.http.get(f"{FLOW}/{measured.id}/deploy/metrics", params={"metrics": "messages_sent,cpu"})
        assert "cpu" in faults(refused)["/metrics"]

    def test_without_a_deployment(self, alice: Owner) -> None:
        json(alice.http.get(f"{FLOW}/{alice.create()['id']}/deploy/metrics"), 404)
        json(alice.http.get(f"{FLOW}/unknown/deploy/metrics"), 404)

    def test_without_data(self, running: Deployed, http: httpx2.Client) -> None:
        quiet = Measured(http, running)
        assert {one["metric_type"] for one in quiet.get()["metrics"]} == set(TYPES)


@pytest.mark.proves("1/monitoring")
class TestSummary:
    @pytest.mark.proves("2.5/aggregated.pipeline_id", "2.5/aggregated.time_range", "4.2/metrics.aggregated")
    def test_of_every_range(self, measured: Measured) -> None:
        for time_range in ("1h", "1d", "1w"):
            body = measured.get(aggregated="true", time_range=time_range)
            assert set(body) == {"pipeline_id", "time_range", *MEMBERS.values()}
            assert (body["pipeline_id"], body["time_range"]) == (measured.id, time_range)
        assert measured.get(aggregated="true")["time_range"] == "1h"

    @pytest.mark.proves("2.5/aggregated.messages_received_per_min", "2.5/aggregated.messages_sent_per_min")
    def test_throughput(self, measured: Measured) -> None:
        body = measured.get(aggregated="true")
        assert body["messages_received_per_min"] > 0
        ratio = body["messages_sent_per_min"] / body["messages_received_per_min"]
        assert ratio == pytest.approx(COUNTED["messages_sent"] / COUNTED["messages_received"])

    @pytest.mark.proves("2.5/aggregated.total_latency", "2.5/aggregated.processing_latency")
    def test_latencies(self, measured: Measured) -> None:
        body = measured.get(aggregated="true")
        for name in ("total_latency", "processing_latency"):
            assert set(body[name]) == {"p50", "p90", "p99", "unit"}
            assert body[name]["unit"] == "ms"
            assert 0 < body[name]["p50"] <= body[name]["p90"] <= body[name]["p99"]

    @pytest.mark.proves("2.5/aggregated.processor_error_rate", "2.5/aggregated.output_error_rate")
    def test_error_rates(self, measured: Measured) -> None:
        body = measured.get(aggregated="true")
        received = COUNTED["messages_received"]
        assert body["processor_error_rate"] == pytest.approx(COUNTED["processor_error"] / received)
        assert body["output_error_rate"] == pytest.approx(COUNTED["output_error"] / received)

    @pytest.mark.proves("2.5/aggregated.avg_data_age_ms")
    def test_the_age_of_the_data(self, measured: Measured) -> None:
        assert measured.get(aggregated="true")["avg_data_age_ms"] >= 0.97 * 1000 * AGE_S
