"""Configurations: PUT /api/v1/flow/{config_id}."""

from typing import Any

from headwater.model.dataset import filter_set
from tests.unit.api.installation import FLOW, TOKEN, Installation, User, flow_body

V8 = {"type": "v8", "script": "function process(record) { return record; }"}
PIPELINE = "/pipeline_config"


class TestReplace:
    def put(self, user: User, made: dict[str, Any], body: Any) -> Any:
        return user.request("PUT", f"{FLOW}/{made['id']}", json=body)

    def test_get_edit_put(self, headwater: Installation, alice: User) -> None:
        made = alice.create()
        headwater.clock.forward(5)
        edited = alice.get(f"{FLOW}/{made['id']}").json() | {"name": "Renamed"}
        edited["pipeline_config"]["transforms"][1]["script"] = "function process() { return null; }"
        response = self.put(alice, made, edited)
        assert response.status_code == 200
        assert response.headers["etag"] == '"2"'
        answer = response.json()
        assert answer.pop("warnings") == []
        assert answer == edited | {"revision": 2, "updated_at": "2026-01-02T03:04:10.678Z"}
        assert alice.get(f"{FLOW}/{made['id']}").json() == answer

    def test_what_create_answered_can_be_put(self, alice: User) -> None:
        made = alice.create()
        answer = self.put(alice, made, made).json()
        assert answer["pipeline_config"] == made["pipeline_config"]
        assert answer["revision"] == 2

    def test_a_file_that_is_put_again_keeps_the_filters_values(self, headwater: Installation, alice: User) -> None:
        made = alice.create()
        uid = made["pipeline_config"]["transforms"][0]["uid"]
        alice.post(f"{FLOW}/{made['id']}/transforms/{uid}/filter-values", {"values": [TOKEN]})
        answer = self.put(alice, made, flow_body()).json()
        assert answer["pipeline_config"] == made["pipeline_config"]
        assert headwater.sets.count(filter_set(made["id"], uid))[0] == 1

    def test_a_transform_of_another_type_at_a_position_is_new(self, alice: User) -> None:
        made = alice.create()
        before, sent = made["pipeline_config"]["transforms"], flow_body()["pipeline_config"]["transforms"]
        after = self.put(alice, made, flow_body(transforms=sent[::-1])).json()["pipeline_config"]["transforms"]
        assert not {t["uid"] for t in after} & {t["uid"] for t in before}

    def test_a_new_filter_starts_with_its_values(self, headwater: Installation, alice: User) -> None:
        made = alice.create(transforms=[])
        new = {"type": "redis_set_filter", "filter_expr": "root = this.a", "set_values": ["X", "y"]}
        response = self.put(alice, made, flow_body(transforms=[new]))
        uid = response.json()["pipeline_config"]["transforms"][0]["uid"]
        assert "set_values" not in response.text
        assert headwater.sets.contains_many(filter_set(made["id"], uid), ["x", "y"]) == [True, True]

    def test_a_sink_keeps_its_uid_while_its_name_stays(self, alice: User) -> None:
        made = alice.create(sinks=[{"type": "kafka", "name": "a"}, {"type": "kafka", "name": "b"}])
        before = {sink["name"]: sink["uid"] for sink in made["pipeline_config"]["sinks"]}
        sinks = [{"type": "kafka", "name": "c", "uid": before["a"]}, {"type": "kafka", "name": "a"}]
        after = self.put(alice, made, flow_body(sinks=sinks)).json()["pipeline_config"]["sinks"]
        assert after[1]["uid"] == before["a"]
        assert after[0]["uid"] not in before.values()

    def test_uids_and_values_that_can_not_be(self, alice: User) -> None:
        made = alice.create()
        filter_, script = made["pipeline_config"]["transforms"]
        for transforms, pointer, says in (
            ([filter_, script | {"uid": "other"}], "1/uid", "no transform of this configuration"),
            ([filter_, script | {"uid": ""}], "1/uid", "no transform of this configuration"),
            ([filter_, filter_], "1/uid", "stands at another transform"),
            ([filter_, script | {"uid": filter_["uid"]}], "1/uid", "stands at another transform"),
            ([V8 | {"uid": filter_["uid"]}], "0/type", "is redis_set_filter for this uid"),
            ([filter_ | {"set_values": ["a"]}], "0/set_values", "filter-values"),
            ([flow_body()["pipeline_config"]["transforms"][0] | {"set_values": []}], "0/set_values", "filter-values"),
        ):
            faults = alice.faults(self.put(alice, made, flow_body(transforms=transforms)))
            assert list(faults) == [f"{PIPELINE}/transforms/{pointer}"]
            assert says in faults[f"{PIPELINE}/transforms/{pointer}"]
        assert alice.get(f"{FLOW}/{made['id']}").json()["revision"] == 1

    def test_is_checked_as_create_is(self, alice: User) -> None:
        made = alice.create()
        for body, pointer in (
            (flow_body(source={"chain": "x", "entity": "y"}), f"{PIPELINE}/source/chain"),
            (flow_body(transforms=[V8 | {"script": "syntax error"}]), f"{PIPELINE}/transforms/0/script"),
            (flow_body(sinks=[{"type": "kafka", "name": "dlq"}]), f"{PIPELINE}/sinks/0/name"),
            (flow_body() | {"nmae": 1}, "/nmae"),
            (flow_body() | {"v8": 1}, "/v8"),
        ):
            assert list(alice.faults(self.put(alice, made, body))) == [pointer]

    def test_only_scripts_that_are_new_here_are_compiled(self, alice: User) -> None:
        throws = V8 | {"script": "function process() { throws }"}
        made = alice.create(transforms=[throws])
        assert made["warnings"]
        assert self.put(alice, made, flow_body(transforms=[throws])).json()["warnings"] == []
        other = flow_body(transforms=[throws], source={"chain": "base", "entity": "log"})
        assert self.put(alice, made, other).json()["warnings"] == made["warnings"]

    def test_a_deployment_runs_on_as_it_is(self, headwater: Installation, alice: User) -> None:
        made = alice.create()
        before = alice.post(f"{FLOW}/{made['id']}/deploy").json()
        self.put(alice, made, flow_body(transforms=[]))
        assert alice.get(f"{FLOW}/{made['id']}/deploy").json() == before
        assert alice.post(f"{FLOW}/{made['id']}/deploy").json()["revision"] == 2

    def test_many_at_once_are_all_saved(self, alice: User) -> None:
        made = alice.create()
        path = f"{FLOW}/{made['id']}"
        sent = [alice.start("PUT", path, json=flow_body() | {"name": f"n{i}"}) for i in range(30)]
        answers = [response.result() for response in sent]
        assert {answer.status_code for answer in answers} == {200}
        names = {answer.json()["revision"]: answer.json()["name"] for answer in answers}
        assert sorted(names) == list(range(2, 32))
        assert alice.get(path).json()["name"] == names[31]

    def test_one_of_many_at_once_wins_with_if_match(self, alice: User) -> None:
        made = alice.create()
        path, headers = f"{FLOW}/{made['id']}", {"If-Match": '"1"'}
        sent = [alice.start("PUT", path, json=flow_body(), headers=headers) for _ in range(20)]
        assert sorted(response.result().status_code for response in sent) == [200] + [412] * 19

    def test_another_owners_is_not_found(self, alice: User, bob: User) -> None:
        made = alice.create()
        bob.problem(self.put(bob, made, flow_body()), 404, "not-found")
        assert alice.get(f"{FLOW}/{made['id']}").json()["revision"] == 1
