"""Metrics of a deployment: GET /api/v1/flow/{config_id}/deploy/metrics."""

from typing import Any

import pytest

from headwater.errors import RedisUnavailable
from headwater.model.metric import (
    METRIC_TYPES,
    TRANSFORM_METRIC_TYPES,
    Histogram,
    MetricsDelta,
    PartitionCounts,
    transform_metric_name,
)
from tests.unit.api.installation import FLOW, Installation, User

MINUTE_S = 60


class Scene:
    """A deployed configuration with workers that write metrics."""

    def __init__(self, headwater: Installation, user: User) -> None:
        self.headwater = headwater
        self.user = user
        self.id = str(user.create()["id"])
        user.post(f"{FLOW}/{self.id}/deploy")
        deployment = headwater.database.deployments.active(self.id)
        assert deployment is not None
        self.deployment_id = deployment.id
        self.end = 0

    def measure(self, times: dict[str, list[float]] | None = None, **counts: int) -> None:
        """Write metrics at the current time."""
        self.end += 1
        typed: Any = counts
        histograms: dict[Any, Histogram] = {name: Histogram() for name in times or {}}
        for name, values in (times or {}).items():
            for value in values:
                histograms[name].add(value)
        minute = int(self.headwater.clock.monotonic()) // MINUTE_S * MINUTE_S
        self.headwater.metrics.write(
            self.deployment_id, "g", "a", MetricsDelta(minute, {0: PartitionCounts(self.end, typed)}, histograms)
        )

    def get(self, **query: Any) -> dict[str, Any]:
        answer = self.user.get(f"{FLOW}/{self.id}/deploy/metrics", params=query)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def points(self, name: str, **query: Any) -> list[Any]:
        (series,) = (one for one in self.get(**query)["metrics"] if one["metric_type"] == name)
        return [(point["timestamp"], point["value"]) for point in series["points"]]


@pytest.fixture
def scene(headwater: Installation, alice: User) -> Scene:
    return Scene(headwater, alice)


class TestSeries:
    def test_without_data(self, scene: Scene) -> None:
        assert scene.get() == {
            "config_id": scene.id,
            "metrics": [{"metric_type": name, "points": []} for name in METRIC_TYPES],
        }

    def test_counts_have_a_point_for_every_interval_since_the_first(self, scene: Scene) -> None:
        scene.measure(messages_received=5, messages_sent=2)
        scene.headwater.clock.forward(3 * MINUTE_S)
        scene.measure(messages_received=7)
        scene.headwater.clock.forward(MINUTE_S)
        minutes = [f"2026-01-02T03:{minute:02}:00.000Z" for minute in range(4, 9)]
        assert scene.points("messages_received") == list(zip(minutes, [5, 0, 0, 7, 0], strict=True))
        assert scene.points("messages_sent") == list(zip(minutes, [2, 0, 0, 0, 0], strict=True))
        assert scene.points("processor_error") == []

    def test_times_are_medians_of_intervals_with_some(self, scene: Scene) -> None:
        scene.measure({"total_latency": [10, 20, 500], "data_age": [2000]}, messages_received=3)
        scene.headwater.clock.forward(2 * MINUTE_S)
        scene.measure({"total_latency": [80]}, messages_received=1)
        assert scene.points("total_latency") == [
            ("2026-01-02T03:04:00.000Z", pytest.approx(20, rel=0.02)),
            ("2026-01-02T03:06:00.000Z", pytest.approx(80, rel=0.02)),
        ]
        assert scene.points("data_age") == [("2026-01-02T03:04:00.000Z", pytest.approx(2000, rel=0.02))]
        assert scene.points("processing_latency") == []

    @pytest.mark.parametrize(("time_range", "points"), [("1h", 60), ("1d", 288), ("1w", 168)])
    def test_the_range_ends_with_the_current_interval(self, scene: Scene, time_range: str, points: int) -> None:
        scene.measure(messages_received=1)
        step_s = {"1h": 60, "1d": 300, "1w": 3600}[time_range]
        scene.headwater.clock.forward((points - 1) * step_s)
        scene.measure(messages_received=2)
        shown = scene.points("messages_received", time_range=time_range)
        assert len(shown) == points
        assert (shown[0][1], shown[-1][1]) == (1, 2)
        scene.headwater.clock.forward(step_s)
        assert [value for _, value in scene.points("messages_received", time_range=time_range)][-2:] == [2, 0]

    def test_only_some_types(self, scene: Scene) -> None:
        body = scene.get(metrics="data_age,messages_sent,data_age")
        assert [one["metric_type"] for one in body["metrics"]] == ["messages_sent", "data_age"]
        assert scene.get(metrics="all") == scene.get()


class TestSummary:
    @pytest.mark.parametrize("value", ["1", "true", "True", "TRUE", "yes", "Yes", "on"])
    def test_any_boolean_true_is_accepted(self, scene: Scene, value: str) -> None:
        assert "pipeline_id" in scene.get(aggregated=value)

    @pytest.mark.parametrize("value", ["0", "false", "False", "no", "off"])
    def test_is_left_out_by_any_word_for_false(self, scene: Scene, value: str) -> None:
        assert "config_id" in scene.get(aggregated=value)

    def test_without_data(self, scene: Scene) -> None:
        nothing = {"p50": None, "p90": None, "p99": None, "unit": "ms"}
        assert scene.get(aggregated="true") == {
            "pipeline_id": scene.id,
            "time_range": "1h",
            "messages_received_per_min": 0,
            "messages_sent_per_min": 0,
            "total_latency": nothing,
            "processing_latency": nothing,
            "processor_error_rate": 0,
            "output_error_rate": 0,
            "avg_data_age_ms": None,
        }

    def test_rates_use_the_time_since_the_deployment(self, scene: Scene) -> None:
        scene.measure(messages_received=60, messages_sent=30)
        scene.headwater.clock.forward(10 * MINUTE_S)
        scene.measure(messages_received=40, processor_error=10, output_error=5)
        body = scene.get(aggregated="true")
        assert body["messages_received_per_min"] == 10
        assert body["messages_sent_per_min"] == 3
        assert body["processor_error_rate"] == 0.1
        assert body["output_error_rate"] == 0.05
        scene.headwater.clock.forward(20 * 3600)
        scene.measure(messages_received=6)
        began = scene.headwater.clock.monotonic() // MINUTE_S * MINUTE_S - 59 * MINUTE_S
        minutes = (scene.headwater.clock.monotonic() - began) / MINUTE_S
        assert scene.get(aggregated="true")["messages_received_per_min"] == pytest.approx(6 / minutes)
        assert scene.get(aggregated="true", time_range="1d")["time_range"] == "1d"

    def test_error_rates_are_at_most_1(self, scene: Scene) -> None:
        scene.measure(messages_received=1, processor_error=10, output_error=2)
        body = scene.get(aggregated="true")
        assert (body["processor_error_rate"], body["output_error_rate"]) == (1, 1)

    def test_percentiles_and_the_mean(self, scene: Scene) -> None:
        scene.measure({"total_latency": [*range(1, 101)], "data_age": [100, 300]}, messages_received=100)
        body = scene.get(aggregated="true")
        times = body["total_latency"]
        assert [times[name] for name in ("p50", "p90", "p99")] == pytest.approx([50, 90, 99], rel=0.02)
        assert times["unit"] == "ms"
        assert body["avg_data_age_ms"] == pytest.approx(200, rel=0.02)

    def test_only_some_types(self, scene: Scene) -> None:
        body = scene.get(aggregated="true", metrics="messages_sent,total_latency,output_error")
        assert set(body) == {
            "pipeline_id",
            "time_range",
            "messages_sent_per_min",
            "total_latency",
            "output_error_rate",
        }


class TestByTransform:
    def measure(self, scene: Scene, counts: dict[str, int], times: dict[str, list[float]] | None = None) -> None:
        """Write metrics of single transforms at the current time."""
        scene.end += 1
        histograms = {name: Histogram() for name in times or {}}
        for name, values in (times or {}).items():
            for value in values:
                histograms[name].add(value)
        minute = int(scene.headwater.clock.monotonic()) // MINUTE_S * MINUTE_S
        partitions = {0: PartitionCounts(scene.end, {"messages_received": 1}, counts)}
        scene.headwater.metrics.write(scene.deployment_id, "g", "a", MetricsDelta(minute, partitions, {}, histograms))

    def test_without_data_each_transform_has_empty_series(self, scene: Scene) -> None:
        transforms = scene.user.get(f"{FLOW}/{scene.id}").json()["pipeline_config"]["transforms"]
        uids = [transform["uid"] for transform in transforms]
        assert uids
        assert scene.get(by="transform") == {
            "config_id": scene.id,
            "metrics": [
                {"transform_uid": uid, "metric_type": name, "points": []}
                for uid in uids
                for name in TRANSFORM_METRIC_TYPES
            ],
        }

    def test_counts_and_times_of_each_transform(self, scene: Scene) -> None:
        uid = scene.get(by="transform")["metrics"][0]["transform_uid"]
        received, sent = (transform_metric_name(uid, name) for name in ("received", "sent"))
        latency = transform_metric_name(uid, "processing_latency")
        self.measure(scene, {received: 5, sent: 3, "another/name": 7}, {latency: [10.0, 20.0, 900.0]})
        scene.headwater.clock.forward(2 * MINUTE_S)
        self.measure(scene, {received: 2})
        series = scene.get(by="transform")["metrics"]
        found = {one["metric_type"]: one for one in series if one["transform_uid"] == uid}
        minutes = [f"2026-01-02T03:{minute:02}:00.000Z" for minute in (4, 5, 6)]
        points = {name: [(p["timestamp"], p["value"]) for p in one["points"]] for name, one in found.items()}
        assert points["received"] == list(zip(minutes, [5, 0, 2], strict=True))
        assert points["sent"] == list(zip(minutes, [3, 0, 0], strict=True))
        assert points["dropped"] == points["errors"] == []
        assert points["processing_latency"] == [(minutes[0], pytest.approx(20, rel=0.02))]
        assert not any(one["points"] for one in series if one["transform_uid"] != uid)

    def test_a_removed_transform_comes_last(self, scene: Scene) -> None:
        self.measure(scene, {transform_metric_name("zz-old", "errors"): 4})
        body = scene.get(by="transform", metrics="errors,received", time_range="1w")
        assert [(one["transform_uid"], one["metric_type"]) for one in body["metrics"]][-2:] == [
            ("zz-old", "received"),
            ("zz-old", "errors"),
        ]
        assert [point["value"] for point in body["metrics"][-1]["points"]] == [4]

    def test_the_pipelines_own_series_do_not_contain_them(self, scene: Scene) -> None:
        self.measure(scene, {transform_metric_name("t", "errors"): 4})
        assert {one["metric_type"] for one in scene.get()["metrics"] if one["points"]} == {"messages_received"}

    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            ({"by": "transform", "aggregated": "true"}, "/aggregated"),
            ({"by": "transform", "metrics": "messages_sent"}, "/metrics"),
            ({"metrics": "received"}, "/metrics"),
            ({"by": "sink"}, "/by"),
            ({"by": ""}, "/by"),
        ],
    )
    def test_refusals(self, scene: Scene, query: dict[str, str], parameter: str) -> None:
        answer = scene.user.get(f"{FLOW}/{scene.id}/deploy/metrics", params=query)
        assert set(scene.user.faults(answer)) == {parameter}


class TestRefusals:
    def test_without_a_deployment(self, alice: User) -> None:
        flow = alice.create()
        alice.problem(alice.get(f"{FLOW}/{flow['id']}/deploy/metrics"), 404, "not-found")

    def test_another_owners_metrics(self, scene: Scene, bob: User) -> None:
        bob.problem(bob.get(f"{FLOW}/{scene.id}/deploy/metrics"), 404, "not-found")

    @pytest.mark.parametrize("types", ["messages", "messages_sent,nothing", "", "messages_sent,", "lookup_latency"])
    def test_unknown_types(self, scene: Scene, types: str) -> None:
        answer = scene.user.get(f"{FLOW}/{scene.id}/deploy/metrics", params={"metrics": types})
        assert "messages_received" in scene.user.faults(answer)["/metrics"]

    @pytest.mark.parametrize(
        ("name", "value"),
        [("time_range", "2h"), *(("aggregated", value) for value in ("maybe", "2", ""))],
    )
    def test_other_parameters(self, scene: Scene, name: str, value: str) -> None:
        answer = scene.user.get(f"{FLOW}/{scene.id}/deploy/metrics", params={name: value})
        assert set(scene.user.faults(answer)) == {f"/{name}"}

    def test_while_the_store_is_unavailable(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: object) -> None:
            raise RedisUnavailable("Valkey or Redis does not answer.")

        monkeypatch.setattr(scene.headwater.metrics, "read", away)
        for aggregated in ("true", "false", "True"):
            answer = scene.user.get(f"{FLOW}/{scene.id}/deploy/metrics", params={"aggregated": aggregated})
            scene.user.problem(answer, 503, "set-store-unavailable")
