"""Configurations: /api/v1/flow."""

import json
import re
from typing import Any

import pytest

from headwater.model.sink import MAX_SINKS
from headwater.model.transforms import MAX_TRANSFORMS
from headwater.model.transforms.v8 import MAX_SCRIPT_BYTES
from headwater.model.value_sets import filter_set_id
from tests.unit.api.installation import FLOW, TOKEN, Installation, User, flow_body, installation

V8 = {"type": "v8", "script": "function process(record) { return record; }"}
PIPELINE = "/pipeline_config"


def with_sinks(*names: str) -> dict[str, Any]:
    return flow_body(sinks=[{"type": "kafka", "name": name} for name in names])


class TestCreate:
    def test_returns_the_configuration_with_generated_members(self, alice: User) -> None:
        response = alice.post(FLOW, flow_body())
        assert response.status_code == 201
        body = response.json()
        assert re.fullmatch(r"[0-9a-z]{26}", body["id"])
        assert response.headers["location"] == f"{FLOW}/{body['id']}"
        assert response.headers["etag"] == '"1"'
        assert body["revision"] == 1
        assert body["owner_org_team_user_id"] == "alice"
        assert body["created_at"] == body["updated_at"] == "2026-01-02T03:04:05.678Z"
        assert (body["name"], body["description"], body["tags"]) == ("Transfers", "of one token", ["a"])
        assert not {"warnings", "external_id"} & body.keys()

    def test_fills_in_the_pipeline(self, alice: User) -> None:
        config = alice.create()["pipeline_config"]
        assert config["source"] == {
            "type": "pubsub",
            "chain": "base",
            "entity": "erc20_token_transfer",
            "is_zerolag": False,
            "start_at": "latest",
        }
        assert (config["parallelism"], config["delivery"]) == (1, "at_least_once")
        uids = [part.pop("uid") for part in [*config["transforms"], *config["sinks"]]]
        assert len(set(uids)) == 3
        assert all(uids)
        assert config["transforms"] == flow_body()["pipeline_config"]["transforms"]
        assert config["sinks"] == [{"type": "kafka", "name": "transfers"}]

    def test_uids_are_ignored(self, alice: User) -> None:
        transforms = [V8 | {"uid": "mine", "warnings": []}, V8 | {"uid": "mine"}, V8 | {"uid": None}]
        config = alice.create(transforms=transforms, sinks=[{"type": "kafka", "name": "a", "uid": 5}])[
            "pipeline_config"
        ]
        assert len({part["uid"] for part in config["transforms"]} - {"mine", None}) == 3
        assert isinstance(config["sinks"][0]["uid"], str)

    def test_transforms_may_be_empty(self, alice: User) -> None:
        assert alice.create(transforms=[])["pipeline_config"]["transforms"] == []

    def test_what_was_read_can_be_sent_as_a_copy(self, alice: User) -> None:
        first = alice.create()
        for answer in (first, alice.get(f"{FLOW}/{first['id']}").json()):
            copy = alice.post(FLOW, answer)
            assert copy.status_code == 201
            assert copy.json()["id"] != first["id"]
            before, after = first["pipeline_config"], copy.json()["pipeline_config"]
            assert after["transforms"][0]["uid"] != before["transforms"][0]["uid"]
            assert after["sinks"][0]["uid"] != before["sinks"][0]["uid"]

    def test_first_values_are_in_the_filter_and_never_returned(self, headwater: Installation, alice: User) -> None:
        transform = flow_body()["pipeline_config"]["transforms"][0] | {"set_values": [" 0xAB ", "0xab", "0xcd"]}
        response = alice.post(FLOW, flow_body(transforms=[transform]))
        assert "set_values" not in response.text
        body = response.json()
        target = filter_set_id(body["id"], body["pipeline_config"]["transforms"][0]["uid"])
        assert headwater.sets.contains_many(target, ["0xab", "0xcd", " 0xAB "]) == [True, True, False]
        assert headwater.sets.count(target).size == 2

    def test_what_a_script_throws_on_the_example_is_a_warning(self, alice: User) -> None:
        flow = alice.create(transforms=[V8, V8 | {"script": "function process() { throws }"}])
        assert flow["warnings"] == [
            {"pointer": f"{PIPELINE}/transforms/1/script", "detail": "TypeError: x is undefined"}
        ]
        assert "warnings" not in alice.get(f"{FLOW}/{flow['id']}").json()

    @pytest.mark.parametrize("start_at", ["latest", "earliest", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+02:00"])
    def test_start_at(self, alice: User, start_at: str) -> None:
        source = {"chain": "hyperliquid", "entity": "fill", "type": "kafka", "start_at": start_at}
        assert alice.create(source=source)["pipeline_config"]["source"] == source | {"is_zerolag": False}

    def test_start_at_in_lower_case(self, alice: User) -> None:
        source = {"chain": "base", "entity": "log", "start_at": "2026-01-02t03:04:05.5z"}
        assert alice.create(source=source)["pipeline_config"]["source"]["start_at"] == "2026-01-02T03:04:05.5Z"

    def test_zerolag_where_it_is_bound(self, alice: User) -> None:
        source = {"chain": "base", "entity": "log", "is_zerolag": True}
        assert alice.create(source=source)["pipeline_config"]["source"]["is_zerolag"] is True

    def test_exactly_once_is_stored_and_returned(self, alice: User) -> None:
        flow = alice.create(delivery="exactly_once")
        url = f"{FLOW}/{flow['id']}"
        assert flow["pipeline_config"]["delivery"] == "exactly_once"
        assert alice.put(url, alice.get(url).json()).json()["pipeline_config"]["delivery"] == "exactly_once"
        assert alice.put(url, flow_body()).json()["pipeline_config"]["delivery"] == "at_least_once"

    def test_exactly_once_needs_a_stream_on_the_sinks_cluster(self, alice: User) -> None:
        source = {"chain": "solana", "entity": "nonvoting_transaction", "is_zerolag": True}
        faults = alice.faults(alice.post(FLOW, flow_body(source=source, delivery="exactly_once")))
        assert "not bound to a topic of the Kafka cluster that the sinks are on" in faults[f"{PIPELINE}/delivery"]
        assert f"{PIPELINE}/delivery" not in alice.faults(alice.post(FLOW, flow_body(source=source)))

    @pytest.mark.parametrize(
        ("source", "pointer", "says"),
        [
            ({"chain": "dogechain", "entity": "log"}, "chain", "polygon, base, solana, hyperliquid"),
            ({"chain": "Base", "entity": "log"}, "chain", "polygon, base, solana, hyperliquid"),
            ({"chain": "solana", "entity": "log"}, "entity", "nonvoting_transaction"),
            ({"chain": "base", "entity": "log", "type": "kafka"}, "type", '"pubsub"'),
            ({"chain": "solana", "entity": "nonvoting_transaction", "is_zerolag": True}, "is_zerolag", "no zerolag"),
            ({"chain": "base", "entity": "log", "start_at": "yesterday"}, "start_at", "RFC 3339"),
            ({"chain": "base", "entity": "log", "start_at": "2026-02-30T00:00:00Z"}, "start_at", "RFC 3339"),
            ({"chain": "base", "entity": "log", "start_at": "1970-01-01T00:00:00+00:01"}, "start_at", "since 1970"),
            ({"chain": "base", "entity": "log", "start_at": "0001-01-01T00:00:00+14:00"}, "start_at", "since 1970"),
            ({"chain": "base", "entity": "log", "is_zerolag": "true"}, "is_zerolag", "boolean"),
            ({"chain": "base", "entity": 5}, "entity", "string"),
            ({"chain": "base"}, "entity", "is required"),
            ({"chain": "base", "entity": "log", "speed": 1}, "speed", "not a member"),
        ],
    )
    def test_source_refused(self, alice: User, source: dict[str, Any], pointer: str, says: str) -> None:
        faults = alice.faults(alice.post(FLOW, flow_body(source=source)))
        assert list(faults) == [f"{PIPELINE}/source/{pointer}"]
        assert says in faults[f"{PIPELINE}/source/{pointer}"]

    @pytest.mark.parametrize(
        ("transform", "pointer", "says"),
        [
            (V8 | {"script": "syntax error"}, "/script", "in line 2, column 7"),
            (V8 | {"script": "function other() {}"}, "/script", "no function process"),
            (V8 | {"script": "process" + "é" * (MAX_SCRIPT_BYTES // 2)}, "/script", "1048576 bytes"),
            (V8 | {"script": "process \0"}, "/script", "NUL"),
            (V8 | {"scrpt": ""}, "/scrpt", "not a member"),
            ({"type": "v8"}, "/script", "is required"),
            (V8 | {"set_values": ["a"]}, "/set_values", "not a member"),
            (
                {"type": "redis_set_filter", "filter_expr": "root = x()"},
                "/filter_expr",
                "column 8: There is no function x()",
            ),
            ({"type": "redis_set_filter", "filter_expr": "root = this.x" * 400}, "/filter_expr", "4096"),
            ({"type": "wasm"}, "/type", 'must be "v8" or "redis_set_filter"'),
            ({"type": None}, "/type", 'must be "v8" or "redis_set_filter"'),
            ({"type": ["v8"]}, "/type", 'must be "v8" or "redis_set_filter"'),
            ({}, "/type", "is required"),
            ("v8", "", "object"),
        ],
    )
    def test_transform_refused(self, alice: User, transform: Any, pointer: str, says: str) -> None:
        faults = alice.faults(alice.post(FLOW, flow_body(transforms=[V8, transform])))
        assert list(faults) == [f"{PIPELINE}/transforms/1{pointer}"]
        assert says in faults[f"{PIPELINE}/transforms/1{pointer}"]

    @pytest.mark.parametrize("value", ["", "  ", "x" * 1025])
    def test_first_value_refused(self, headwater: Installation, alice: User, value: str) -> None:
        transform = {"type": "redis_set_filter", "filter_expr": "root = this.to_address", "set_values": ["good", value]}
        faults = alice.faults(alice.post(FLOW, flow_body(transforms=[transform])))
        assert list(faults) == [f"{PIPELINE}/transforms/0/set_values/1"]
        assert alice.get(FLOW).json() == []

    def test_too_many_first_values(self, alice: User) -> None:
        transform = {"type": "redis_set_filter", "filter_expr": "root = this.to_address", "set_values": ["x"] * 250_001}
        faults = alice.faults(alice.post(FLOW, flow_body(transforms=[transform])))
        assert "250001 values" in faults[f"{PIPELINE}/transforms/0/set_values"]

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            (with_sinks("a", "a"), f"{PIPELINE}/sinks/1/name"),
            (with_sinks("a.b", "a_b"), f"{PIPELINE}/sinks/1/name"),
            (with_sinks("dlq"), f"{PIPELINE}/sinks/0/name"),
            (with_sinks("ok", "DlQ"), f"{PIPELINE}/sinks/1/name"),
            (with_sinks("a b"), f"{PIPELINE}/sinks/0/name"),
            (with_sinks("a\n"), f"{PIPELINE}/sinks/0/name"),
            (with_sinks("x" * 101), f"{PIPELINE}/sinks/0/name"),
            (with_sinks(), f"{PIPELINE}/sinks"),
            (with_sinks(*(f"s{i}" for i in range(MAX_SINKS + 1))), f"{PIPELINE}/sinks"),
            (flow_body(sinks=[{"type": "s3", "name": "a"}]), f"{PIPELINE}/sinks/0/type"),
            (flow_body(transforms=[V8] * (MAX_TRANSFORMS + 1)), f"{PIPELINE}/transforms"),
            (flow_body(parallelism=0), f"{PIPELINE}/parallelism"),
            (flow_body(parallelism=65), f"{PIPELINE}/parallelism"),
            (flow_body(parallelism="2"), f"{PIPELINE}/parallelism"),
            (flow_body(parallelism=True), f"{PIPELINE}/parallelism"),
            (flow_body(parallelism={"min": 1}), f"{PIPELINE}/parallelism/max"),
            (flow_body(parallelism={"min": 0, "max": 2}), f"{PIPELINE}/parallelism/min"),
            (flow_body(parallelism={"min": 1, "max": 65}), f"{PIPELINE}/parallelism/max"),
            (flow_body(parallelism={"min": 1, "max": "2"}), f"{PIPELINE}/parallelism/max"),
            (flow_body(parallelism={"min": 2, "max": 1}), f"{PIPELINE}/parallelism"),
            (flow_body(parallelism={"min": 1, "max": 2, "x": 3}), f"{PIPELINE}/parallelism/x"),
            (flow_body(delivery="at_most_once"), f"{PIPELINE}/delivery"),
            (flow_body(**{"a/b~c": 1}), f"{PIPELINE}/a~1b~0c"),
            (flow_body() | {"nmae": "x"}, "/nmae"),
            (flow_body() | {"name": ""}, "/name"),
            (flow_body() | {"name": "x" * 201}, "/name"),
            (flow_body() | {"name": None}, "/name"),
            (flow_body() | {"tags": "a"}, "/tags"),
            (flow_body() | {"tags": [1]}, "/tags/0"),
            (flow_body() | {"description": "\0"}, "/description"),
            ({"pipeline_config": flow_body()["pipeline_config"]}, "/name"),
            ({"name": "x"}, PIPELINE),
            ([], ""),
            ("x", ""),
            (None, ""),
        ],
    )
    def test_body_refused(self, alice: User, body: Any, pointer: str) -> None:
        response = alice.post(FLOW, content=json.dumps(body), headers={"content-type": "application/json"})
        assert list(alice.faults(response)) == [pointer]

    @pytest.mark.parametrize(
        ("body", "detail"),
        [
            (with_sinks(), "must have at least 1 item, not 0"),
            (with_sinks("a b"), "must match pattern '^[A-Za-z0-9._-]{1,100}$'"),
            (flow_body() | {"name": ""}, "must have at least 1 character"),
            (flow_body(parallelism=0), "must be greater than or equal to 1"),
            (
                flow_body(parallelism="2"),
                'must be a number of workers from 1 to 64, or bounds such as {"min": 1, "max": 8}',
            ),
            (
                flow_body(parallelism={"min": 3, "max": 2}),
                "must have a min that is not greater than its max; lower min (3) or raise max (2)",
            ),
        ],
    )
    def test_details_match_the_pointer(self, alice: User, body: Any, detail: str) -> None:
        assert list(alice.faults(alice.post(FLOW, body)).values()) == [detail]

    def test_the_detail_tells_the_first_fault(self, alice: User) -> None:
        body = alice.problem(alice.post(FLOW, flow_body() | {"name": "", "nmae": ""}), 422, "invalid-input")
        assert "/name" in body["detail"]
        assert "There are 2 faults in all" in body["detail"]

    def test_the_detail_counts_only_listed_errors(self, alice: User) -> None:
        body = alice.problem(alice.post(FLOW, flow_body() | {"tags": [1] * 30}), 422, "invalid-input")
        assert len(body["errors"]) == 20
        assert "There are at least 20 faults; see errors." in body["detail"]

    def test_names_every_script_that_is_refused(self, alice: User) -> None:
        body = flow_body(transforms=[V8 | {"script": "syntax error"}, V8, V8 | {"script": "function other() {}"}])
        faults = alice.faults(alice.post(FLOW, body))
        assert list(faults) == [f"{PIPELINE}/transforms/{i}/script" for i in (0, 2)]

    def test_scripts_of_an_invalid_body_are_not_compiled(self, alice: User) -> None:
        broken = V8 | {"script": "syntax error"}
        body = flow_body(source={"chain": "x", "entity": "y"}, transforms=[broken])
        assert list(alice.faults(alice.post(FLOW, body))) == [f"{PIPELINE}/source/chain"]
        body = flow_body(transforms=[broken, {"type": "redis_set_filter", "filter_expr": "root ="}])
        assert list(alice.faults(alice.post(FLOW, body))) == [f"{PIPELINE}/transforms/1/filter_expr"]

    def test_fifty_concurrent_requests(self, alice: User) -> None:
        sent = [alice.start("POST", FLOW, json=flow_body()) for _ in range(50)]
        assert {response.result().status_code for response in sent} == {201}
        assert len(alice.get(FLOW).json()) == 50


class TestNull:
    """A client that sends null for members that it does not set: each gets its default."""

    def test_null_members_take_their_defaults(self, alice: User) -> None:
        source = {"chain": "base", "entity": "log", "type": None, "is_zerolag": None, "start_at": None}
        filter_ = {
            "type": "redis_set_filter",
            "filter_expr": "root = this.to_address",
            "set_values": None,
            "name": None,
        }
        members = {"transforms": [filter_], "parallelism": None, "delivery": None}
        body = flow_body(source=source, **members) | {"description": None, "tags": None, "external_id": None}
        response = alice.post(FLOW, body)
        assert response.status_code == 201, response.text
        read = response.json()
        assert (read["description"], read["tags"]) == ("", [])
        config = read["pipeline_config"]
        assert config["source"] == {
            "type": "pubsub",
            "chain": "base",
            "entity": "log",
            "is_zerolag": False,
            "start_at": "latest",
        }
        assert (config["parallelism"], config["delivery"]) == (1, "at_least_once")

    def test_null_is_not_a_valid_list_of_transforms(self, alice: User) -> None:
        assert alice.create(transforms=None)["pipeline_config"]["transforms"] == []

    @pytest.mark.parametrize("member", ["name", "pipeline_config"])
    def test_a_required_member_must_not_be_null(self, alice: User, member: str) -> None:
        answer = alice.post(FLOW, flow_body() | {member: None})
        kind = {"name": "valid string", "pipeline_config": "JSON object"}[member]
        assert alice.faults(answer) == {f"/{member}": f"must be a {kind}, not null"}

    def test_the_description_allows_null_where_there_is_a_default(self, alice: User) -> None:
        schemas = alice.get("/openapi.json").json()["components"]["schemas"]
        config = schemas["NewPipelineConfig"]["properties"]
        assert {"type": "null"} in config["parallelism"]["anyOf"]
        assert {"type": "null"} in schemas["NewFlow"]["properties"]["tags"]["anyOf"]
        assert "anyOf" not in schemas["NewFlow"]["properties"]["name"]


class TestExternalId:
    def create(self, user: User, external_id: str) -> dict[str, Any]:
        response = user.post(FLOW, flow_body() | {"external_id": external_id})
        assert response.status_code == 201, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def test_finds_its_configuration(self, alice: User, bob: User) -> None:
        flow = self.create(alice, "orders/1")
        alice.create()
        self.create(bob, "orders/1")
        assert flow["external_id"] == "orders/1"
        assert alice.get(FLOW, params={"external_id": "orders/1"}).json() == [flow]
        assert alice.get(FLOW, params={"external_id": "orders/2"}).json() == []
        assert list(alice.faults(alice.get(FLOW, params={"external_id": ""}))) == ["/external_id"]

    def test_is_unique_among_the_owners(self, alice: User) -> None:
        first, second = self.create(alice, "a"), self.create(alice, "b")
        refused = alice.problem(alice.post(FLOW, flow_body() | {"external_id": "a"}), 409, "conflict")
        assert "external_id 'a'" in refused["detail"]
        path = f"{FLOW}/{second['id']}"
        alice.problem(alice.put(path, flow_body() | {"external_id": "a"}), 409, "conflict")
        assert alice.get(path).json() == second
        alice.delete(f"{FLOW}/{first['id']}")
        assert alice.put(path, flow_body() | {"external_id": "a"}).json()["external_id"] == "a"

    def test_a_put_without_the_external_id_keeps_it_and_null_removes_it(self, alice: User) -> None:
        path = f"{FLOW}/{self.create(alice, 'a')['id']}"
        assert alice.put(path, flow_body()).json()["external_id"] == "a"
        assert "external_id" not in alice.put(path, flow_body() | {"external_id": None}).json()

    @pytest.mark.parametrize("external_id", ["", "x" * 201, "\0", 5])
    def test_refused(self, alice: User, external_id: Any) -> None:
        assert list(alice.faults(alice.post(FLOW, flow_body() | {"external_id": external_id}))) == ["/external_id"]


class TestSlash:
    def test_the_collection_url_may_end_with_a_slash(self, alice: User) -> None:
        response = alice.post(f"{FLOW}/", flow_body())
        assert response.status_code == 201
        assert response.headers["location"] == f"{FLOW}/{response.json()['id']}"
        assert alice.get(f"{FLOW}/").json() == alice.get(FLOW).json() == [response.json()]
        assert alice.get(f"{FLOW}/datasets/").json() == []
        assert alice.request("DELETE", f"{FLOW}/").headers["allow"] == "GET, HEAD, POST"


class TestList:
    def test_is_empty_at_first(self, alice: User) -> None:
        assert alice.get(FLOW).json() == []

    def test_lists_the_owners_resources_newest_first(self, headwater: Installation, alice: User, bob: User) -> None:
        first = alice.create()
        headwater.clock.forward(1)
        second = alice.create()
        bob.create()
        assert [flow["id"] for flow in alice.get(FLOW).json()] == [second["id"], first["id"]]


class TestRead:
    def test_returns_what_create_returned(self, alice: User) -> None:
        flow = alice.create()
        response = alice.get(f"{FLOW}/{flow['id']}")
        assert response.json() == flow
        assert response.headers["etag"] == '"1"'

    def test_another_owners_configuration_is_unknown(self, alice: User, bob: User) -> None:
        path = f"{FLOW}/{alice.create()['id']}"
        answers = []
        for user in (bob, alice):
            answers.append(user.problem(user.get(path), 404, "not-found"))
            if user is bob:
                assert alice.delete(path).status_code == 200
        for answer in answers:
            del answer["request_id"]
        assert answers[0] == answers[1]


class TestDelete:
    def test_removes_configuration_and_filter_values(self, headwater: Installation, alice: User) -> None:
        flow = alice.create()
        uid = flow["pipeline_config"]["transforms"][0]["uid"]
        alice.post(f"{FLOW}/{flow['id']}/transforms/{uid}/filter-values", {"values": [TOKEN]})
        response = alice.delete(f"{FLOW}/{flow['id']}")
        assert response.status_code == 200
        assert response.json() == {"message": f"Pipeline {flow['id']} successfully deleted"}
        alice.problem(alice.get(f"{FLOW}/{flow['id']}"), 404, "not-found")
        assert headwater.sets.count(filter_set_id(flow["id"], uid)) == (0, 0)
        assert headwater.database.flows.deleted() == []

    def test_tears_the_deployment_down(self, headwater: Installation, alice: User) -> None:
        flow = alice.create()
        alice.post(f"{FLOW}/{flow['id']}/deploy")
        assert alice.delete(f"{FLOW}/{flow['id']}").status_code == 200
        assert headwater.database.deployments.active(flow["id"]) is None
        assert headwater.database.flows.deleted() == []

    def test_a_repeated_delete_waits_for_the_teardown(self) -> None:
        with installation(deploy_timeout_s=0.3) as headwater:
            alice, bob = headwater.user("alice"), headwater.user("bob")
            path = f"{FLOW}/{alice.create()['id']}"
            alice.post(f"{path}/deploy")
            headwater.controller.asleep = True
            for _ in range(2):
                body = alice.problem(alice.delete(path), 503, "deploy-pending")
                assert "Removal of its deployment continues" in body["detail"]
            bob.problem(bob.delete(path), 404, "not-found")
            headwater.controller.asleep = False
            alice.finish("DELETE", path)
            alice.problem(alice.delete(path), 404, "not-found")

    def test_another_owners_resource_is_not_found(self, alice: User, bob: User) -> None:
        path = f"{FLOW}/{alice.create()['id']}"
        bob.problem(bob.delete(path), 404, "not-found")
        assert alice.get(path).status_code == 200

    def test_deleting_a_deployed_configuration_needs_the_deploy_scope(
        self, headwater: Installation, alice: User
    ) -> None:
        flow = alice.create()
        writer = headwater.user("alice", ["flow:write", "flow:read"])
        alice.post(f"{FLOW}/{flow['id']}/deploy")
        body = writer.problem(writer.delete(f"{FLOW}/{flow['id']}"), 403, "forbidden")
        assert "flow:deploy" in body["detail"]
        alice.post(f"{FLOW}/{flow['id']}/teardown")
        assert writer.delete(f"{FLOW}/{flow['id']}").status_code == 200
