"""The overview of configurations, and the description of the key."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus, worker_group
from headwater.model.metric import Histogram, MetricsDelta, PartitionCounts
from headwater.model.stored_config import read_pipeline_config, write_pipeline_config
from tests.support.waiting import until
from tests.unit.api.installation import FLOW, Installation, User, flow_body

OVERVIEW = f"{FLOW}/overview"


@pytest.fixture
def ann(headwater: Installation) -> User:
    return headwater.user("ann")


def create(user: User, name: str, **members: Any) -> str:
    response = user.post(FLOW, flow_body() | {"name": name} | members)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def deploy(user: User, config_id: str) -> None:
    response = user.post(f"{FLOW}/{config_id}/deploy")
    assert response.status_code == 200, response.text


def page(user: User, **query: Any) -> dict[str, Any]:
    response = user.get(OVERVIEW, params=query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def names(user: User, **query: Any) -> list[str]:
    """Return the names on all pages."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        body = page(user, **query, **cursor)
        found += [item["name"] for item in body["items"]]
        if body["cursor"] is None:
            return found
        cursor = {"cursor": body["cursor"]}


def item(user: User, name: str) -> dict[str, Any]:
    return next(found for found in page(user)["items"] if found["name"] == name)


def worker(headwater: Installation, **fields: Any) -> ObservedWorker:
    start = headwater.clock.now - timedelta(hours=1)
    return ObservedWorker(
        name="w-0", status=ObservedWorkerStatus.RUNNING, start_time=start, **{"is_ready": True} | fields
    )


def store_unreadable(headwater: Installation, config_id: str) -> None:
    """Store a configuration as a version with another limit would store it."""
    flow = headwater.database.flows.get("ann", config_id)
    stored = json.loads(write_pipeline_config(flow.pipeline_config)) | {"parallelism": 1000}
    config = read_pipeline_config(json.dumps(stored))
    headwater.database.flows.save(replace(flow, revision=2, pipeline_config=config))


def report(headwater: Installation, config_id: str, **fields: Any) -> None:
    deployment = headwater.database.deployments.active(config_id)
    assert deployment is not None
    headwater.database.deployments.report_workers({deployment.id: [worker(headwater, **fields)]})


class TestStates:
    def test_a_draft_has_no_deployment(self, ann: User) -> None:
        config_id = create(ann, "one", tags=["a", "b"], external_id="mine")
        assert page(ann)["items"] == [
            {
                "id": config_id,
                "name": "one",
                "external_id": "mine",
                "tags": ["a", "b"],
                "source": {"chain": "base", "entity": "erc20_token_transfer"},
                "state": "draft",
                "condition": None,
                "revision": 1,
                "updated_at": "2026-01-02T03:04:05.678Z",
                "messages_received": None,
                "messages_sent": None,
                "errors": None,
                "avg_data_age_ms": None,
                "lag": None,
            }
        ]

    def test_deployed_until_its_teardown(self, headwater: Installation, ann: User) -> None:
        config_id = create(ann, "one")
        deploy(ann, config_id)
        assert (item(ann, "one")["state"], item(ann, "one")["condition"]) == ("deployed", "Stable")
        headwater.controller.asleep = True
        headwater.database.deployments.request_teardown(config_id)
        assert (item(ann, "one")["state"], item(ann, "one")["condition"]) == ("draft", None)

    def test_a_failed_or_rolled_back_rollout(self, headwater: Installation, ann: User) -> None:
        config_id = create(ann, "one")
        headwater.controller.reasons.append("broken")
        ann.post(f"{FLOW}/{config_id}/deploy")
        assert (item(ann, "one")["state"], item(ann, "one")["condition"]) == ("failing", "Failed")
        deploy(ann, config_id)
        assert item(ann, "one")["state"] == "deployed"
        ann.put(f"{FLOW}/{config_id}", flow_body(parallelism=2) | {"name": "one"})
        headwater.controller.reasons.append("broken")
        headwater.controller.rolls_back_to = 1
        ann.post(f"{FLOW}/{config_id}/deploy")
        assert (item(ann, "one")["state"], item(ann, "one")["condition"]) == ("failing", "RolledBack")
        assert item(ann, "one")["revision"] == 2

    def test_a_worker_in_a_crash_loop_or_not_ready_for_long(self, headwater: Installation, ann: User) -> None:
        config_id = create(ann, "one")
        deploy(ann, config_id)
        now = headwater.clock.now
        for fields, state in (
            ({"is_ready": True}, "deployed"),
            ({"is_ready": False, "is_crash_looping": True, "not_ready_since": now}, "failing"),
            ({"is_ready": False, "not_ready_since": now - timedelta(seconds=59)}, "deployed"),
            ({"is_ready": False, "not_ready_since": now - timedelta(seconds=60)}, "failing"),
        ):
            report(headwater, config_id, **fields)
            assert item(ann, "one")["state"] == state, fields

    def test_paused_until_it_is_resumed(self, ann: User) -> None:
        config_id = create(ann, "one")
        deploy(ann, config_id)
        assert ann.post(f"{FLOW}/{config_id}/pause").status_code == 200
        assert item(ann, "one")["state"] == "paused"
        assert (names(ann, state="paused"), names(ann, state="deployed")) == (["one"], [])
        assert ann.post(f"{FLOW}/{config_id}/resume").status_code == 200
        assert item(ann, "one")["state"] == "deployed"

    def test_unreadable(self, headwater: Installation, ann: User) -> None:
        create(ann, "good")
        store_unreadable(headwater, create(ann, "bad"))
        assert [(found["name"], found["state"]) for found in page(ann)["items"]] == [
            ("bad", "unreadable"),
            ("good", "draft"),
        ]
        assert (names(ann, state="unreadable"), names(ann, state="draft")) == (["bad"], ["good"])


class TestSelection:
    def test_pages(self, ann: User) -> None:
        created = [create(ann, str(number)) for number in range(5)]
        assert len(set(created)) == 5
        assert names(ann, limit=2) == names(ann, limit=5) == names(ann) == ["4", "3", "2", "1", "0"]
        assert [len(page(ann, limit=limit)["items"]) for limit in (1, 4, 5, 200)] == [1, 4, 5, 5]
        assert page(ann, limit=5)["cursor"] is None

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("whale", ["Whale 100%", "WHALES"]),
            ("100%", ["Whale 100%"]),
            ("%", ["Whale 100%"]),
            ("_", []),
            ("ÄRGER", ["ärger"]),
            ("Ext-", ["ärger"]),
            ("nothing", []),
        ],
    )
    def test_a_text(self, ann: User, text: str, found: list[str]) -> None:
        create(ann, "WHALES")
        create(ann, "Whale 100%")
        create(ann, "ärger", external_id="EXT-1")
        assert sorted(names(ann, q=text)) == sorted(found)
        assert sorted(names(ann, q=text, limit=1)) == sorted(found)

    def test_an_id(self, ann: User) -> None:
        config_id = create(ann, "one")
        create(ann, "two")
        assert names(ann, q=config_id.upper()) == ["one"]

    @pytest.mark.parametrize("tag", ["a", 'quote"', "ä", "percent%", "[", ""])
    def test_a_tag(self, ann: User, tag: str) -> None:
        create(ann, "one", tags=["other", tag])
        create(ann, "two", tags=["other", f"{tag}x", tag.upper() + "y"])
        if tag:
            assert names(ann, tag=tag) == ["one"]
        assert names(ann, tag="other") == ["two", "one"]

    def test_a_state_with_a_text_and_a_tag(self, ann: User) -> None:
        deploy(ann, create(ann, "one", tags=["a"]))
        create(ann, "two", tags=["a"])
        deploy(ann, create(ann, "three", tags=["b"]))
        assert names(ann, state="deployed") == ["three", "one"]
        assert names(ann, state="deployed", tag="a") == ["one"]
        assert names(ann, state="draft", limit=1) == ["two"]
        assert names(ann, state="failing") == names(ann, state="paused") == names(ann, state="draft", q="o e") == []

    def test_another_owner_sees_nothing(self, headwater: Installation, ann: User) -> None:
        create(ann, "one")
        assert page(headwater.user("ben"))["items"] == []

    @pytest.mark.parametrize(
        ("query", "pointer"),
        [
            ({"limit": "0"}, "/limit"),
            ({"limit": "201"}, "/limit"),
            ({"cursor": "x"}, "/cursor"),
            ({"state": "running"}, "/state"),
            ({"q": ""}, "/q"),
            ({"q": "a\0"}, "/q"),
            ({"tag": ""}, "/tag"),
            ({"name": "x"}, "/name"),
        ],
    )
    def test_bad_parameters(self, ann: User, query: dict[str, str], pointer: str) -> None:
        problem = ann.problem(ann.get(OVERVIEW, params=query), 422, "invalid-input")
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]

    def test_the_cursor_null_is_the_first_page(self, ann: User) -> None:
        create(ann, "one")
        assert names(ann, cursor="null") == ["one"]


class TestRates:
    def test_the_counts_of_the_last_hour(self, headwater: Installation, ann: User) -> None:
        config_id = create(ann, "one")
        deploy(ann, config_id)
        deployment = headwater.database.deployments.active(config_id)
        assert deployment is not None
        now = int(headwater.clock.monotonic()) // 60 * 60
        for minute, received in ((now - 3_600, 7), (now - 3_540, 5), (now, 3)):
            counts: Any = {"messages_received": received, "messages_sent": 2, "processor_error": 1, "output_error": 1}
            ages = Histogram()
            ages.add(1_000.0)
            delta = MetricsDelta(minute, {0: PartitionCounts(minute, counts)}, {"data_age": ages})
            headwater.metrics.write(deployment.id, "g", "w", delta)
        body, found = page(ann), item(ann, "one")
        assert body["first_minute"] == datetime.fromtimestamp(now - 3_540, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        assert found["messages_received"] == [5, *[0] * 58, 3]
        assert found["messages_sent"] == [2, *[0] * 58, 2]
        assert found["errors"] == [2, *[0] * 58, 2]
        assert found["avg_data_age_ms"] == pytest.approx(1_000, rel=0.03)

    def test_the_lag_is_read_in_the_background(self, headwater: Installation, ann: User) -> None:
        config_id = create(ann, "one")
        deploy(ann, config_id)
        deployment = headwater.database.deployments.active(config_id)
        assert deployment is not None
        topic = "stream.base.erc20_token_transfer"
        headwater.broker.logs[topic] = [[0] * 12]
        headwater.broker.commits[worker_group(deployment.id, 1)] = {(topic, 0): 0}
        until(lambda: item(ann, "one")["lag"] == 12, 20, "the lag")


class TestMe:
    def test_the_key_of_the_request(self, ann: User) -> None:
        body = ann.get(f"{FLOW}/me").json()
        assert body["owner"] == "ann"
        assert ann.key.startswith(f"hw_live_{body['key_id']}_")
        assert "flow:read" in body["scopes"]
        assert body["expires_at"] is None

    def test_a_key_that_expires(self, headwater: Installation) -> None:
        user = headwater.user("ann", expires_at=headwater.clock.now + timedelta(hours=1))
        assert user.get(f"{FLOW}/me").json()["expires_at"] == "2026-01-02T04:04:05.678Z"
