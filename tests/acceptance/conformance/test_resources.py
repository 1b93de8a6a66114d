"""Section 2: resources and their fields."""

import re
from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import FILTER, FLOW, SCRIPT, Owner, faults, filter_path, json, unique
from tests.acceptance.installation import Deployed, Installation, kill, pipeline, reading
from tests.support.waiting import until

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
EVM = {"log", "decoded_log", "erc20_token_transfer", "erc721_token_transfer", "erc1155_token_transfer"}
CATALOG = {
    ("polygon", "pubsub"): EVM,
    ("base", "pubsub"): EVM,
    ("solana", "pubsub"): {"nonvoting_transaction"},
    ("hyperliquid", "kafka"): {"block", "trade", "fill", "order", "misc_event"},
}


@pytest.mark.proves(
    "2.1/id",
    "2.1/name",
    "2.1/description",
    "2.1/tags",
    "2.1/owner_org_team_user_id",
    "2.1/created_at",
    "2.1/updated_at",
    "2.1/pipeline_config",
    "2.1/create-and-update-requests-send-name",
)
class TestFlowConfig:
    SENT = {**pipeline(transforms=[FILTER]), "name": "A name", "description": "A text", "tags": ["a", "b"]}

    def check(self, flow: dict[str, Any]) -> None:
        assert re.fullmatch("[0-9a-z]{26}", flow["id"])
        assert {name: flow[name] for name in ("name", "description", "tags")} == {
            name: self.SENT[name] for name in ("name", "description", "tags")
        }
        assert isinstance(flow["owner_org_team_user_id"], str)
        assert flow["owner_org_team_user_id"]
        assert TIME.fullmatch(flow["created_at"])
        assert TIME.fullmatch(flow["updated_at"])
        assert flow["created_at"] <= flow["updated_at"]
        assert set(flow["pipeline_config"]) >= {"source", "transforms", "sinks"}

    def test_create_read_and_list_return_the_same(self, http: httpx2.Client) -> None:
        created = json(http.post(FLOW, json=self.SENT), 201)
        self.check(created)
        read = json(http.get(f"{FLOW}/{created['id']}"))
        assert read == created
        assert read in json(http.get(FLOW))

    def test_updated(self, alice: Owner) -> None:
        created = alice.create(name="before")
        updated = json(alice.http.put(f"{FLOW}/{created['id']}", json=self.SENT))
        self.check(updated)
        assert updated["id"] == created["id"]
        assert updated["created_at"] == created["created_at"]
        assert updated["updated_at"] > created["updated_at"]

    @pytest.mark.proves("2.1/the-fields-id-owner_org_team_user_id-created_at-and")
    def test_generated_fields_are_returned_only(self, alice: Owner) -> None:
        other = alice.create()
        forged = {
            "id": other["id"],
            "owner_org_team_user_id": "someone",
            "created_at": "2001-01-01T00:00:00.000Z",
            "updated_at": "2001-01-01T00:00:00.000Z",
        }
        created = json(alice.http.post(FLOW, json=self.SENT | forged), 201)
        assert all(created[name] != value for name, value in forged.items())
        path = f"{FLOW}/{created['id']}"
        updated = json(alice.http.put(path, json=self.SENT | forged))
        assert all(updated[name] != value for name, value in forged.items())
        assert updated["id"] == created["id"]

    def test_optional_members(self, http: httpx2.Client) -> None:
        body = {"name": "short", "pipeline_config": self.SENT["pipeline_config"]}
        created = json(http.post(FLOW, json=body), 201)
        assert (created["description"], created["tags"]) == ("", [])
        assert set(faults(http.post(FLOW, json={}))) == {"/name", "/pipeline_config"}
        assert set(faults(http.post(FLOW, json=body | {"nmae": "typo"}))) == {"/nmae"}


class TestPipelineConfig:
    @pytest.mark.proves("2.2/source", "2.2/sinks", "2.2/source.is_zerolag", "2.2/source.type")
    def test_source_and_sinks(self, alice: Owner) -> None:
        config = alice.create()["pipeline_config"]
        source = {"type": "pubsub", "chain": "base", "entity": "erc20_token_transfer", "is_zerolag": False}
        assert source.items() <= config["source"].items()
        assert [(sink["type"], sink["name"]) for sink in config["sinks"]] == [("kafka", "out")]
        kafka = alice.create(chain="hyperliquid", entity="trade")["pipeline_config"]["source"]
        assert kafka["type"] == "kafka"

    @pytest.mark.proves("2.2/source.type")
    def test_the_source_type_depends_on_the_chain(self, http: httpx2.Client) -> None:
        right = {"type": "pubsub", "chain": "base", "entity": "log"}
        json(http.post(FLOW, json=pipeline(source=right)), 201)
        for wrong in ("kafka", "file"):
            refused = faults(http.post(FLOW, json=pipeline(source=right | {"type": wrong})))
            assert set(refused) == {"/pipeline_config/source/type"}

    @pytest.mark.proves("2.2/source.chain", "2.2/source.entity")
    @pytest.mark.parametrize(("chain", "entity", "member"), [("Base", "log", "chain"), ("base", "Log", "entity")])
    def test_chain_and_entity_are_lower_case(self, http: httpx2.Client, chain: str, entity: str, member: str) -> None:
        json(http.post(FLOW, json=pipeline("log", "base")), 201)
        assert set(faults(http.post(FLOW, json=pipeline(entity, chain)))) == {f"/pipeline_config/source/{member}"}

    @pytest.mark.proves("2.2/source.entity")
    def test_the_entity_is_one_of_the_chain(self, http: httpx2.Client) -> None:
        refused = faults(http.post(FLOW, json=pipeline("trade", "base")))
        assert "erc20_token_transfer" in refused["/pipeline_config/source/entity"]

    @pytest.mark.proves("2.2/transforms", "2.2/transform.v8", "2.2/transform.redis_set_filter")
    def test_transforms_act_in_order(self, installation: Installation, running: Deployed) -> None:
        with reading(running.sink) as reader:
            installation.feed("hyperliquid", "trade", [{"n": 1, "wanted": "YES"}, {"n": 2, "wanted": "no"}])
            (record,) = reader.read(1)
            assert record.json() == {"n": 1, "wanted": "YES", "path": ["first", "second"]}

    @pytest.mark.proves("2.2/transforms")
    def test_the_order_of_transforms_is_stored(self, http: httpx2.Client) -> None:
        sent = [SCRIPT, FILTER, SCRIPT, FILTER, FILTER]
        flow = json(http.post(FLOW, json=pipeline(transforms=sent)), 201)
        read = json(http.get(f"{FLOW}/{flow['id']}"))["pipeline_config"]["transforms"]
        assert [transform["type"] for transform in read] == [transform["type"] for transform in sent]

    @pytest.mark.proves("2.2/transform.v8")
    @pytest.mark.parametrize("script", ["function other(data) { return data; }", "const process = 1;", "not js"])
    def test_a_script_defines_process(self, http: httpx2.Client, script: str) -> None:
        json(http.post(FLOW, json=pipeline(transforms=[{"type": "v8", "script": "const process = (d) => d;"}])), 201)
        refused = faults(http.post(FLOW, json=pipeline(transforms=[{"type": "v8", "script": script}])))
        assert set(refused) == {"/pipeline_config/transforms/0/script"}

    @pytest.mark.proves("2.2/transform.redis_set_filter")
    def test_a_filter_has_an_expression(self, http: httpx2.Client) -> None:
        for wrong in ("root =", "root = a", "root = this.", ""):
            body = pipeline(transforms=[{"type": "redis_set_filter", "filter_expr": wrong}])
            assert set(faults(http.post(FLOW, json=body))) == {"/pipeline_config/transforms/0/filter_expr"}

    @pytest.mark.proves(
        "2.2/each-transform-has-a-unique-identifier", "4.3/both-path-parameters-are-required-transform_uid"
    )
    def test_each_transform_has_a_unique_identifier_for_paths(self, alice: Owner) -> None:
        flow = alice.create(transforms=[FILTER, FILTER, SCRIPT])
        filter_, _, script = flow["pipeline_config"]["transforms"]
        assert len({transform["uid"] for transform in flow["pipeline_config"]["transforms"]}) == 3
        json(alice.http.post(filter_path(flow), json={"values": ["a"]}))
        assert json(alice.http.get(f"{filter_path(flow)}/count"))["count"] == 1
        assert json(alice.http.get(f"{filter_path(flow, 1)}/count"))["count"] == 0
        path = f"{FLOW}/{flow['id']}/transforms"
        assert json(alice.http.patch(f"{path}/{filter_['uid']}", json=FILTER))["uid"] == filter_["uid"]
        json(alice.http.get(f"{path}/{script['uid']}/filter-values"), 409)
        json(alice.http.get(f"{path}/unknown/filter-values"), 404)

    @pytest.mark.proves("2.2/sink.type")
    def test_the_sink_type_is_kafka(self, http: httpx2.Client) -> None:
        body = pipeline(sinks=[{"type": "file", "name": "out"}])
        assert next(iter(faults(http.post(FLOW, json=body)))).startswith("/pipeline_config/sinks/0")

    @pytest.mark.proves("2.2/sink.name")
    def test_the_sink_name_names_the_topic(self, running: Deployed) -> None:
        assert running.sink["topic"] == f"flow.{running.id}.{running.sink['name']}"


class TestCatalog:
    @pytest.mark.proves(
        "2.3/polygon", "2.3/base", "2.3/solana", "2.3/hyperliquid", "2.3/more-chains-and-entities-are-added"
    )
    def test_lists_chains_and_entities(self, http: httpx2.Client) -> None:
        streams = json(http.get(f"{FLOW}/streams"))
        for (chain, type_), entities in CATALOG.items():
            found = {stream["entity"] for stream in streams if (stream["chain"], stream["type"]) == (chain, type_)}
            assert found >= entities

    @pytest.mark.proves("2.3/polygon", "2.3/base", "2.3/solana", "2.3/hyperliquid")
    def test_configurations_accept_all_chains_and_entities(self, http: httpx2.Client) -> None:
        for (chain, type_), entities in CATALOG.items():
            for entity in entities:
                created = json(http.post(FLOW, json=pipeline(entity, chain)), 201)
                assert created["pipeline_config"]["source"]["type"] == type_

    @pytest.mark.proves("2.3/hyperliquid")
    def test_a_kafka_stream_is_read(self, installation: Installation, running: Deployed) -> None:
        with reading(running.sink) as reader:
            already = len(reader.poll(2))
            installation.feed("hyperliquid", "trade", [{"n": 3, "wanted": "yes", "coin": "BTC"}])
            assert reader.read(already + 1)[-1].json()["coin"] == "BTC"


class TestWorkersHealth:
    @pytest.mark.proves(
        "2.4/workers_health.total_workers",
        "2.4/workers_health.healthy_workers",
        "2.4/workers_health.unhealthy_workers",
        "2.4/workers_health.workers",
        "2.4/worker-entry.name",
        "2.4/worker-entry.status",
        "2.4/worker-entry.is_ready",
        "2.4/worker-entry.start_time",
        "1/monitoring",
    )
    def test_a_running_deployment(self, http: httpx2.Client, running: Deployed) -> None:
        health = json(http.get(f"{FLOW}/{running.id}/deploy/stats"))["workers_health"]
        counts = {name: value for name, value in health.items() if name != "workers"}
        assert counts == {
            "total_workers": 1,
            "healthy_workers": 1,
            "unhealthy_workers": 0,
            "crashing_workers": 0,
            "oom_killed_workers": 0,
        }
        (worker,) = health["workers"]
        assert worker["name"]
        assert worker["status"] == "Running"
        assert worker["is_ready"] is True
        assert TIME.fullmatch(worker["start_time"])

    @pytest.mark.proves(
        "2.4/workers_health.unhealthy_workers",
        "2.4/workers_health.crashing_workers",
        "2.4/workers_health.oom_killed_workers",
        "2.4/worker-entry.is_crash_looping",
        "2.4/worker-entry.is_oom_killed",
        "2.4/worker-entry.restart_count",
    )
    def test_a_repeatedly_killed_worker_is_crash_looping(self, installation: Installation, alice: Owner) -> None:
        flow = alice.create(transforms=[])
        deployment = Deployed(flow["id"], flow, json(alice.http.post(f"{FLOW}/{flow['id']}/deploy")))
        seen: list[dict[str, Any]] = []

        def crashing() -> bool:
            kill(installation.workers_of(deployment))
            seen.append(json(alice.http.get(f"{FLOW}/{deployment.id}/deploy/stats"))["workers_health"])
            return bool(seen[-1]["crashing_workers"])

        until(crashing, what="a crash loop in deploy/stats")
        (worker,) = seen[-1]["workers"]
        assert (seen[-1]["healthy_workers"], seen[-1]["unhealthy_workers"]) == (0, 1)
        assert (worker["is_crash_looping"], worker["is_ready"], worker["status"]) == (True, False, "CrashLoopBackOff")
        assert worker["restart_count"] >= 2
        # The worker was killed, but not for its memory use.
        assert (seen[-1]["oom_killed_workers"], worker["is_oom_killed"]) == (0, False)

        def back() -> bool:
            health = json(alice.http.get(f"{FLOW}/{deployment.id}/deploy/stats"))["workers_health"]
            return (health["healthy_workers"], health["crashing_workers"]) == (1, 0)

        until(back, what="the worker's return")

    def test_there_is_no_health_without_a_deployment(self, alice: Owner) -> None:
        json(alice.http.get(f"{FLOW}/{alice.create()['id']}/deploy/stats"), 404)


class TestFilterPage:
    @pytest.mark.proves("2.6/values", "2.6/cursor", "2.6/total_count")
    def test_fields(self, alice: Owner) -> None:
        path = filter_path(alice.create())
        empty = json(alice.http.get(path))
        assert empty == {"values": [], "cursor": None, "total_count": 0}
        json(alice.http.post(path, json={"values": ["a", "b", "c"]}))
        first = json(alice.http.get(path, params={"count": 2}))
        assert (len(first["values"]), first["total_count"], type(first["cursor"])) == (2, 3, int)
        last = json(alice.http.get(path, params={"count": 2, "cursor": first["cursor"]}))
        assert (last["total_count"], last["cursor"]) == (3, None)
        assert sorted(first["values"] + last["values"]) == ["a", "b", "c"]


class TestMembership:
    @pytest.mark.proves("2.7/value", "2.7/is_member")
    def test_fields(self, alice: Owner) -> None:
        path = filter_path(alice.create(transforms=[{**FILTER, "set_values": ["a"]}]))
        for value, member in (("a", True), ("A", True), ("b", False)):
            found = json(alice.http.get(f"{path}/check", params={"value": value}))
            assert found == {"value": value, "is_member": member}


class TestDataset:
    @pytest.mark.proves("2.8/a-dataset-has-an-id-dataset_id")
    def test_fields(self, alice: Owner, bob: Owner) -> None:
        name = unique("Named Set")
        dataset = json(alice.http.post(f"{FLOW}/datasets", json={"name": name}), 201)
        assert dataset["name"] == name
        entries = f"{FLOW}/datasets/{dataset['id']}/entries"
        json(alice.http.post(entries, json={"values": ["One", "two"]}))
        assert sorted(json(alice.http.get(entries))["values"]) == ["one", "two"]
        assert json(alice.http.get(f"{FLOW}/datasets/{dataset['id']}")) == dataset | {
            "updated_at": dataset["updated_at"]
        }
        json(bob.http.get(f"{FLOW}/datasets/{dataset['id']}"), 404)
        json(bob.http.post(f"{FLOW}/datasets", json={"name": name}), 201)
