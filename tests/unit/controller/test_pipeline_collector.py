"""The Prometheus series of each pipeline, as a scraper gets them."""

import socket

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headwater.app.metrics_server import serve_metrics
from headwater.controller.pipeline_collector import BOUNDS_MS, PipelineCollector
from headwater.errors import SetupError
from headwater.model.metric import Histogram
from headwater.model.worker_protocol import Heartbeat, TransformCounters
from tests.support.ports import free_port
from tests.unit.controller.world import DEPLOYMENT, FLOW, TOPIC, World

WORKER = {"config_id": FLOW, "deployment_id": DEPLOYMENT, "worker": f"{DEPLOYMENT}-0"}


@pytest.fixture
def world() -> World:
    world = World()
    world.deploy()
    world.run()
    return world


def scrape(world: World) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return all samples by name."""
    port = free_port()
    collector = PipelineCollector(world.orchestrator, lambda _, groups: world.broker.lag(groups))
    with serve_metrics(port, collector, "--metrics-port"):
        text = httpx2.get(f"http://127.0.0.1:{port}/metrics").text
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def test_counters_and_health(world: World) -> None:
    beat = Heartbeat(state="ready", spec_hash="h", counters={"messages_received": 7, "processor_error": 2})
    world.orchestrator.heartbeats[WORKER["worker"]] = beat
    found = scrape(world)
    assert found["headwater_pipeline_messages_received_total"] == [(WORKER, 7)]
    assert found["headwater_pipeline_messages_sent_total"] == [(WORKER, 0)]
    assert found["headwater_pipeline_processor_error_total"] == [(WORKER, 2)]
    assert found["headwater_pipeline_worker_ready"] == [(WORKER, 1)]


def test_the_states_of_workers(world: World) -> None:
    found = scrape(world)
    assert found["headwater_pipeline_worker_restarts_total"] == [(WORKER, 0)]
    assert found["headwater_pipeline_worker_crash_looping"] == [(WORKER, 0)]
    assert found["headwater_pipeline_worker_oom_killed"] == [(WORKER, 0)]
    assert "headwater_redrive_messages_received_total" not in found


def test_each_transform_has_counters_and_a_mean_time(world: World) -> None:
    totals = TransformCounters(received=7, sent=9, dropped=1, errors=2, processing_ms=350.0)
    beat = Heartbeat(state="ready", spec_hash="h", transforms={"t1": totals, "t2": TransformCounters(received=9)})
    world.orchestrator.heartbeats[WORKER["worker"]] = beat
    found = scrape(world)
    first, second = ({**WORKER, "transform_uid": uid} for uid in ("t1", "t2"))
    prefix = "headwater_pipeline_transform"
    assert found[f"{prefix}_received_total"] == [(first, 7), (second, 9)]
    assert found[f"{prefix}_sent_total"] == [(first, 9), (second, 0)]
    assert found[f"{prefix}_dropped_total"] == [(first, 1), (second, 0)]
    assert found[f"{prefix}_errors_total"] == [(first, 2), (second, 0)]
    assert found[f"{prefix}_processing_latency_seconds_count"] == [(first, 7), (second, 9)]
    assert found[f"{prefix}_processing_latency_seconds_sum"] == [(first, 0.35), (second, 0)]


def test_times_are_histograms(world: World) -> None:
    lookups = Histogram()
    for value_ms in (0.5, 3.0, 3.1, 900.0, 1e6):
        lookups.add(value_ms)
    beat = Heartbeat(state="ready", spec_hash="h", times={"lookup_latency": dict(lookups)})
    world.orchestrator.heartbeats[WORKER["worker"]] = beat
    found = scrape(world)
    name = "headwater_pipeline_lookup_latency_seconds"
    buckets = {float(labels["le"]): value for labels, value in found[f"{name}_bucket"]}
    assert len(buckets) == len(BOUNDS_MS) + 1
    assert [value for bound, value in sorted(buckets.items()) if bound in (0.0004, 0.0016, 0.0064, 1.6384)] == [
        0,
        1,
        3,
        4,
    ]
    assert buckets[float("inf")] == 5
    assert found[f"{name}_count"] == [(WORKER, 5)]
    assert found[f"{name}_sum"][0][1] == pytest.approx(1000.9066, rel=0.02)


def test_the_lag_is_of_the_group(world: World) -> None:
    for _ in range(3):
        world.broker.append(TOPIC, 1, 0)
    labels = {name: value for name, value in WORKER.items() if name != "worker"}
    assert scrape(world)["headwater_pipeline_lag"] == [(labels, 3)]


def test_other_series_are_exported_without_the_broker(world: World) -> None:
    world.broker.away = True
    found = scrape(world)
    assert "headwater_pipeline_lag" not in found
    assert "headwater_pipeline_worker_ready" in found


def test_a_closed_orchestrator_exports_no_series(world: World) -> None:
    world.orchestrator.close()
    assert scrape(world) == {}


def test_no_port(world: World) -> None:
    collector = PipelineCollector(world.orchestrator, lambda _, groups: world.broker.lag(groups))
    with serve_metrics(0, collector, "--metrics-port"):
        pass


def test_a_port_that_is_taken(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(SetupError, match="--metrics-port"),
            serve_metrics(
                port,
                PipelineCollector(world.orchestrator, lambda _, groups: world.broker.lag(groups)),
                "--metrics-port",
            ),
        ):
            pass
