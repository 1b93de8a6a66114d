"""Section 4: endpoints."""

from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import FILTER, FLOW, SCRIPT, Owner, faults, filter_path, json
from tests.acceptance.installation import Deployed, Installation, deployed, pipeline, reading

WRITES = (("POST", FLOW), ("POST", f"{FLOW}/datasets"), ("POST", f"{FLOW}/datasets/entries"))


class TestBodies:
    @pytest.mark.proves("4/all-bodies-are-json")
    def test_responses_are_json(self, http: httpx2.Client, alice: Owner) -> None:
        flow = alice.create()
        for answer in (http.get(FLOW), http.get(filter_path(flow)), http.get(f"{FLOW}/nothing"), http.post(FLOW)):
            assert answer.headers["content-type"] in ("application/json", "application/problem+json")
            answer.json()
        for method, path in WRITES:
            refused = http.request(method, path, content=b"{no", headers={"Content-Type": "application/json"})
            json(refused, 400)

    @pytest.mark.proves("4/requests-with-a-body-send-content-type")
    def test_requests_must_be_json(self, http: httpx2.Client) -> None:
        for method, path in WRITES:
            json(http.request(method, path, content=b"{}", headers={"Content-Type": "text/plain"}), 415)
        header = {"Content-Type": "application/json; charset=utf-8"}
        json(http.post(FLOW, content=b'{"name": "x"}', headers=header), 422)


class TestConfigurations:
    @pytest.mark.proves("4.2/POST /api/v1/flow", "4.2/base-path-base_url-api-v1-flow", "9/the-version-is-part-of-the")
    def test_create(self, http: httpx2.Client) -> None:
        sent = {**pipeline(transforms=[FILTER, SCRIPT]), "description": "d", "tags": ["t"]}
        answer = http.post(FLOW, json=sent)
        created = json(answer, 201)
        assert answer.headers["location"] == f"{FLOW}/{created['id']}"
        assert {name: created[name] for name in ("name", "description", "tags")} == {
            name: sent[name] for name in ("name", "description", "tags")
        }
        assert {"id", "owner_org_team_user_id", "created_at", "updated_at"} <= set(created)
        json(http.get(answer.headers["location"]))

    @pytest.mark.proves("4.2/GET /api/v1/flow")
    def test_list(self, alice: Owner) -> None:
        config_id = [alice.create()["id"] for _ in range(3)]
        listed = json(alice.http.get(FLOW))
        assert isinstance(listed, list)
        assert [flow["id"] for flow in listed][:3] == config_id[::-1]  # newest first

    @pytest.mark.proves("4.2/GET /api/v1/flow/{config_id}")
    def test_read(self, alice: Owner) -> None:
        flow = alice.create()
        assert json(alice.http.get(f"{FLOW}/{flow['id']}"))["id"] == flow["id"]
        json(alice.http.get(f"{FLOW}/unknown"), 404)

    @pytest.mark.proves("4.2/PUT /api/v1/flow/{config_id}", "1/pipelines")
    def test_update(self, alice: Owner) -> None:
        flow = alice.create()
        path = f"{FLOW}/{flow['id']}"
        sent = {**pipeline(transforms=[SCRIPT]), "name": "new", "description": "n", "tags": ["n"]}
        updated = json(alice.http.put(path, json=sent))
        assert (updated["name"], updated["description"], updated["tags"]) == ("new", "n", ["n"])
        assert [t["type"] for t in updated["pipeline_config"]["transforms"]] == ["v8"]
        read = json(alice.http.get(path))
        assert updated == read
        assert set(faults(alice.http.put(path, json={}))) == {"/name", "/pipeline_config"}
        json(alice.http.put(f"{FLOW}/unknown", json=sent), 404)

    @pytest.mark.proves("4.2/DELETE /api/v1/flow/{config_id}")
    def test_delete(self, alice: Owner) -> None:
        path = f"{FLOW}/{alice.create()['id']}"
        json(alice.http.delete(path))
        json(alice.http.get(path), 404)
        json(alice.http.delete(path), 404)


class TestDeployments:
    @pytest.mark.proves("4.2/POST /api/v1/flow/{config_id}/deploy")
    def test_deploy_returns_topics_and_credentials(self, running: Deployed) -> None:
        assert running.deploy_response["message"] == f"Pipeline {running.id} successfully deployed"
        assert (running.deploy_response["status"], running.deploy_response["config_id"]) == ("deployed", running.id)
        needed = ("topic", "bootstrap_servers", "security_protocol", "sasl_mechanism", "username", "password")
        assert all(running.sink[name] for name in (*needed, "consumer_group"))
        assert set(running.sink["snippets"]) == {"python", "node", "java", "kcat"}
        for snippet in running.sink["snippets"].values():
            assert running.sink["topic"] in snippet
            assert running.sink["password"] in snippet

    @pytest.mark.proves("4.2/POST /api/v1/flow/{config_id}/deploy")
    def test_a_repeated_deploy_returns_the_same(self, http: httpx2.Client, running: Deployed) -> None:
        assert json(http.post(f"{FLOW}/{running.id}/deploy")) == running.deploy_response
        json(http.post(f"{FLOW}/unknown/deploy"), 404)

    @pytest.mark.proves("4.2/POST /api/v1/flow/{config_id}/teardown")
    def test_teardown(self, alice: Owner) -> None:
        config_id = alice.create()["id"]
        answer = json(alice.http.post(f"{FLOW}/{config_id}/teardown"))
        assert answer == {"message": f"Pipeline {config_id} successfully torn down"}
        json(alice.http.get(f"{FLOW}/{config_id}"))
        json(alice.http.post(f"{FLOW}/unknown/teardown"), 404)

    @pytest.mark.proves("4.2/GET /api/v1/flow/{config_id}/deploy/stats")
    def test_stats(self, http: httpx2.Client, running: Deployed) -> None:
        assert json(http.get(f"{FLOW}/{running.id}/deploy/stats"))["workers_health"]["total_workers"] == 1
        json(http.get(f"{FLOW}/unknown/deploy/stats"), 404)


class TestTransforms:
    @pytest.mark.proves("4.2/PATCH /api/v1/flow/{config_id}/transforms/{transform_uid}")
    def test_patch(self, alice: Owner) -> None:
        flow = alice.create()
        filter_, script = flow["pipeline_config"]["transforms"]
        path = f"{FLOW}/{flow['id']}/transforms"
        changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (filter_, {"type": "redis_set_filter", "filter_expr": "root = this.to_address"}),
            (script, {"type": "v8", "script": "function process() { return null; }"}),
        ]
        for transform, sent in changes:
            updated = json(alice.http.patch(f"{path}/{transform['uid']}", json=sent))
            assert {"uid": transform["uid"], **sent}.items() <= updated.items()
        read = json(alice.http.get(f"{FLOW}/{flow['id']}"))["pipeline_config"]["transforms"]
        assert [t["uid"] for t in read] == [filter_["uid"], script["uid"]]
        assert read[0]["filter_expr"] == "root = this.to_address"
        json(alice.http.patch(f"{path}/{filter_['uid']}", json=SCRIPT), 422)  # another type
        json(alice.http.patch(f"{path}/unknown", json=SCRIPT), 404)

    @pytest.mark.proves(
        "4.2/PUT /api/v1/flow/{config_id}/transforms",
        "4.2/the-put-of-the-transforms-list",
    )
    def test_replace_adds_removes_updates_and_reorders(self, alice: Owner) -> None:
        flow = alice.create(transforms=[{**FILTER, "set_values": ["kept"]}, SCRIPT, SCRIPT])
        path = f"{FLOW}/{flow['id']}/transforms"
        filter_, script, _ = flow["pipeline_config"]["transforms"]
        changed = {**script, "script": "const process = (r) => r;"}
        updated = json(alice.http.put(path, json=[changed, filter_, FILTER]))
        assert [t["uid"] for t in updated[:2]] == [script["uid"], filter_["uid"]]
        assert updated[2]["uid"] not in {t["uid"] for t in flow["pipeline_config"]["transforms"]}
        assert updated[0]["script"] == changed["script"]
        stored = json(alice.http.get(f"{FLOW}/{flow['id']}"))
        assert [t["uid"] for t in stored["pipeline_config"]["transforms"]] == [t["uid"] for t in updated]
        assert json(alice.http.get(filter_path(stored, 1)))["values"] == ["kept"]

    @pytest.mark.proves(
        "4.2/the-list-must-not-be-empty",
        "7/Replace transforms list with an empty list",
        "8/Transforms list",
        "2.2/transforms",
    )
    def test_the_list_of_transforms_must_not_be_empty(self, alice: Owner) -> None:
        flow = alice.create()
        json(alice.http.put(f"{FLOW}/{flow['id']}/transforms", json=[]), 422)
        assert json(alice.http.get(f"{FLOW}/{flow['id']}"))["pipeline_config"] == flow["pipeline_config"]
        assert json(alice.http.post(FLOW, json=pipeline(transforms=[])), 201)["pipeline_config"]["transforms"] == []

    @pytest.mark.proves("4.2/filter-values-changes-made-after-creating")
    def test_filter_values_are_not_part_of_the_configuration(self, alice: Owner) -> None:
        flow = alice.create(transforms=[{**FILTER, "set_values": ["first"]}])
        assert "first" not in str(flow)
        json(alice.http.post(filter_path(flow), json={"values": ["second"]}))
        read = json(alice.http.get(f"{FLOW}/{flow['id']}"))
        assert (read["revision"], read["updated_at"]) == (flow["revision"], flow["updated_at"])
        json(alice.http.put(f"{FLOW}/{flow['id']}", json=pipeline(transforms=[FILTER])))
        assert sorted(json(alice.http.get(filter_path(flow)))["values"]) == ["first", "second"]


class TestFilterValues:
    @pytest.mark.proves("4.3/path-prefix-api-v1-flow-config_id", "4.3/GET", "4.3/POST")
    def test_add_and_list(self, alice: Owner) -> None:
        path = filter_path(alice.create())
        assert json(alice.http.post(path, json={"values": ["a", "b", "a"]}))["added"] == 2
        assert json(alice.http.post(path, json={"values": ["b", "c"]}))["added"] == 1
        assert sorted(json(alice.http.get(path))["values"]) == ["a", "b", "c"]

    @pytest.mark.proves("4.3/GET")
    def test_pages(self, alice: Owner) -> None:
        path = filter_path(alice.create())
        values = {f"value-{number}" for number in range(250)}
        json(alice.http.post(path, json={"values": sorted(values)}))
        first = json(alice.http.get(path))
        assert len(first["values"]) == 100  # the default
        listed = list(first["values"])
        cursor = first["cursor"]
        while cursor is not None:
            page = json(alice.http.get(path, params={"cursor": cursor, "count": 30}))
            assert len(page["values"]) == 30 or page["cursor"] is None
            listed += page["values"]
            cursor = page["cursor"]
        assert len(listed) == 250
        assert set(listed) == values

    @pytest.mark.proves("4.3/PUT")
    def test_replace(self, alice: Owner) -> None:
        path = filter_path(alice.create(transforms=[{**FILTER, "set_values": ["old", "both"]}]))
        assert json(alice.http.put(path, json={"values": ["both", "new", "NEW"]}))["count"] == 2
        assert sorted(json(alice.http.get(path))["values"]) == ["both", "new"]
        assert json(alice.http.put(path, json={"values": []}))["count"] == 0
        assert json(alice.http.get(path)) == {"values": [], "cursor": None, "total_count": 0}

    @pytest.mark.proves("4.3/DELETE")
    def test_remove(self, alice: Owner) -> None:
        path = filter_path(alice.create(transforms=[{**FILTER, "set_values": ["a", "b", "c"]}]))
        assert json(alice.delete(path, ["B", "c", "d"]))["removed"] == 2
        assert json(alice.http.get(path))["values"] == ["a"]

    @pytest.mark.proves("4.3/GET /check")
    def test_check(self, alice: Owner) -> None:
        path = filter_path(alice.create(transforms=[{**FILTER, "set_values": ["a"]}]))
        assert json(alice.http.get(f"{path}/check", params={"value": "a"})) == {"value": "a", "is_member": True}
        assert json(alice.http.get(f"{path}/check", params={"value": "b"})) == {"value": "b", "is_member": False}
        assert set(faults(alice.http.get(f"{path}/check"))) == {"/value"}

    @pytest.mark.proves("4.3/GET /count")
    def test_count(self, alice: Owner) -> None:
        path = filter_path(alice.create(transforms=[{**FILTER, "set_values": ["a", "b"]}]))
        assert json(alice.http.get(f"{path}/count"))["count"] == 2
        json(alice.delete(path, ["a"]))
        assert json(alice.http.get(f"{path}/count"))["count"] == 1

    @pytest.mark.proves("1/normalization")
    def test_values_are_stored_in_lower_case(self, alice: Owner) -> None:
        path = filter_path(alice.create(transforms=[{**FILTER, "set_values": [" 0xAB "]}]))
        json(alice.http.post(path, json={"values": ["0xCD", "Ünïcode"]}))
        assert sorted(json(alice.http.get(path))["values"]) == ["0xab", "0xcd", "ünïcode"]
        dataset = alice.dataset("SoL")
        assert json(alice.http.get(f"{FLOW}/datasets/{dataset['id']}/entries"))["values"] == ["sol"]


class TestDatasetEntries:
    @pytest.mark.proves(
        "4.4/POST /api/v1/flow/datasets/{dataset_id}/entries", "4.4/both-add-values-duplicates-are-ignored"
    )
    def test_add_by_id(self, alice: Owner) -> None:
        path = f"{FLOW}/datasets/{alice.dataset()['id']}/entries"
        assert json(alice.http.post(path, json={"values": ["a", "b", "A"]}))["count"] == 2
        assert json(alice.http.post(path, json={"values": ["b", "c"]}))["count"] == 1
        assert set(faults(alice.http.post(path, json={}))) == {"/values"}
        json(alice.http.post(f"{FLOW}/datasets/unknown/entries", json={"values": ["a"]}), 404)

    @pytest.mark.proves(
        "4.4/POST /api/v1/flow/datasets/entries", "4.4/both-add-values-duplicates-are-ignored", "1/datasets"
    )
    def test_add_by_name(self, alice: Owner) -> None:
        dataset = alice.dataset("a")
        path = f"{FLOW}/datasets/entries"
        assert json(alice.http.post(path, json={"name": dataset["name"], "values": ["a", "b"]}))["count"] == 1
        assert json(alice.http.get(f"{FLOW}/datasets/{dataset['id']}/entries"))["total_count"] == 2
        assert set(faults(alice.http.post(path, json={"values": ["a"]}))) == {"/name"}
        assert set(faults(alice.http.post(path, json={"name": dataset["name"]}))) == {"/values"}

    @pytest.mark.proves(
        "4.4/both-add-values-duplicates-are-ignored", "1/datasets", "3/filter-values-and-dataset-entries-change"
    )
    def test_new_entries_are_visible_to_scripts_immediately(self, installation: Installation, alice: Owner) -> None:
        dataset = alice.dataset("always")
        script = f"const process = (r) => flow.contains('{dataset['name']}', [r.a, r.b]) ? r : null;"
        body = pipeline("fill", "hyperliquid", transforms=[{"type": "v8", "script": script}])
        by_id, by_name = f"{FLOW}/datasets/{dataset['id']}/entries", f"{FLOW}/datasets/entries"
        records = [{"n": 1, "a": "x", "b": "ONE"}, {"n": 2, "a": "two", "b": "y"}, {"n": 3, "a": "always", "b": "z"}]
        with deployed(alice.http, body) as deployment, reading(deployment.sink) as reader:
            installation.feed("hyperliquid", "fill", records)
            assert [record.json()["n"] for record in reader.read(1)] == [3]
            json(alice.http.post(by_id, json={"values": ["one"]}))
            installation.feed("hyperliquid", "fill", records)
            assert [record.json()["n"] for record in reader.read(3)] == [3, 1, 3]
            json(alice.http.post(by_name, json={"name": dataset["name"], "values": ["TWO"]}))
            installation.feed("hyperliquid", "fill", records)
            assert [record.json()["n"] for record in reader.read(6)] == [3, 1, 3, 1, 2, 3]


class TestEvents:
    @pytest.mark.proves("6/the-service-sends-no-webhook-or")
    def test_there_is_no_endpoint_for_webhooks(self, http: httpx2.Client) -> None:
        description = json(http.get("/openapi.json"))
        assert "webhooks" not in description
        assert not [path for path, operations in description["paths"].items() if "callbacks" in str(operations)]
