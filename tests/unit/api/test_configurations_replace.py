"""Configurations: PUT /api/v1/flow/{config_id}."""

from typing import Any

from headwater.model.value_sets import filter_set_id
from tests.unit.api.installation import FLOW, TOKEN, Installation, User, flow_body

V8 = {"type": "v8", "script": "function process(record) { return record; }"}
PIPELINE = "/pipeline_config"


FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
OTHER = {"type": "redis_set_filter", "filter_expr": "root = this.from_address"}


def transforms_of(flow: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = flow["pipeline_config"]["transforms"]
    return found


class TestFilters:
    """The values of a filter stay with its expression, for any body without uids."""

    def put(self, user: User, flow: dict[str, Any], *transforms: Any) -> dict[str, Any]:
        response = user.put(f"{FLOW}/{flow['id']}", flow_body(transforms=list(transforms)))
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def values(self, user: User, flow: dict[str, Any], transform: dict[str, Any]) -> list[str]:
        where = f"{FLOW}/{flow['id']}/transforms/{transform['uid']}/filter-values"
        values: list[str] = user.get(where).json()["values"]
        return values

    def test_an_inserted_filter_gets_no_values_of_others(self, alice: User) -> None:
        flow = alice.create(transforms=[FILTER | {"set_values": [TOKEN]}])
        front, kept = transforms_of(self.put(alice, flow, OTHER, FILTER))
        assert kept == transforms_of(flow)[0]
        assert self.values(alice, flow, front) == []
        assert self.values(alice, flow, kept) == [TOKEN]

    def test_a_filter_edited_in_place_keeps_its_values(self, alice: User) -> None:
        flow = alice.create(transforms=[FILTER | {"set_values": [TOKEN]}, V8])
        answer = self.put(alice, flow, OTHER, V8)
        assert transforms_of(answer)[0]["uid"] == transforms_of(flow)[0]["uid"]
        assert "warnings" not in answer

    def test_a_warning_for_a_removed_and_an_added_filter(self, alice: User) -> None:
        flow = alice.create(transforms=[FILTER | {"set_values": [TOKEN, "0xab"]}])
        answer = self.put(alice, flow, V8, OTHER)
        [warning] = answer["warnings"]
        assert warning["pointer"] == f"{PIPELINE}/transforms/1"
        assert f"{transforms_of(flow)[0]['uid']} (root = this.token_address) with 2 values" in warning["detail"]
        assert self.values(alice, flow, transforms_of(answer)[1]) == []
        assert "warnings" not in self.put(alice, flow, V8)  # the filter is removed, and none is added

    def test_the_transforms_list_tells_too(self, alice: User) -> None:
        flow = alice.create(transforms=[FILTER])
        answer = alice.put(f"{FLOW}/{flow['id']}/transforms", [V8, FILTER]).json()
        assert "warnings" not in answer[0]
        assert [warning["pointer"] for warning in answer[1]["warnings"]] == ["/1"]

    def test_first_values_of_a_filter_that_exists_are_ignored_with_a_warning(self, alice: User) -> None:
        sent = FILTER | {"set_values": [TOKEN]}
        flow = alice.create(transforms=[sent])
        kept = transforms_of(flow)[0]
        for answer, pointer in (
            (self.put(alice, flow, FILTER | {"set_values": ["0xcd"]}), f"{PIPELINE}/transforms/0/set_values"),
            (alice.put(f"{FLOW}/{flow['id']}/transforms", [kept | {"set_values": [""]}]).json()[0], "/0/set_values"),
            (
                alice.request("PATCH", f"{FLOW}/{flow['id']}/transforms/{kept['uid']}", json=sent).json(),
                "/set_values",
            ),
        ):
            [warning] = answer["warnings"]
            assert warning["pointer"] == pointer
            assert f"keeps its values; change them with …/transforms/{kept['uid']}/filter-values" in warning["detail"]
            assert self.values(alice, flow, kept) == [TOKEN]

    def test_values_follow_a_name(self, alice: User) -> None:
        flow = alice.create(transforms=[FILTER | {"name": "tokens", "set_values": [TOKEN]}, OTHER])
        sent = [OTHER, FILTER | {"name": "tokens", "filter_expr": "root = this.changed"}]
        other, tokens = transforms_of(self.put(alice, flow, *sent))
        assert self.values(alice, flow, tokens) == [TOKEN]
        assert self.values(alice, flow, other) == []
        [answer] = alice.put(f"{FLOW}/{flow['id']}/transforms", [FILTER | {"name": "tokens"}]).json()
        assert answer["uid"] == tokens["uid"]

    def test_a_name_stays_until_it_is_sent_as_null(self, alice: User) -> None:
        flow = alice.create(transforms=[FILTER | {"name": "tokens"}])
        uid = transforms_of(flow)[0]["uid"]
        assert transforms_of(flow)[0]["name"] == "tokens"
        assert transforms_of(self.put(alice, flow, FILTER))[0]["name"] == "tokens"
        patched = alice.request("PATCH", f"{FLOW}/{flow['id']}/transforms/{uid}", json=OTHER).json()
        assert patched == OTHER | {"uid": uid, "name": "tokens"}
        assert "name" not in transforms_of(self.put(alice, flow, OTHER | {"name": None}))[0]

    def test_a_patch_may_not_take_the_name_of_another(self, alice: User) -> None:
        flow = alice.create(transforms=[FILTER | {"name": "a"}, OTHER])
        second = transforms_of(flow)[1]
        sent = alice.request("PATCH", f"{FLOW}/{flow['id']}/transforms/{second['uid']}", json=OTHER | {"name": "a"})
        assert list(alice.faults(sent)) == ["/name"]


class TestReplace:
    def put(self, user: User, flow: dict[str, Any], body: Any) -> Any:
        return user.request("PUT", f"{FLOW}/{flow['id']}", json=body)

    def test_get_edit_put(self, headwater: Installation, alice: User) -> None:
        flow = alice.create()
        headwater.clock.forward(5)
        edited = alice.get(f"{FLOW}/{flow['id']}").json() | {"name": "Renamed"}
        edited["pipeline_config"]["transforms"][1]["script"] = "function process() { return null; }"
        response = self.put(alice, flow, edited)
        assert response.status_code == 200
        assert response.headers["etag"] == '"2"'
        answer = response.json()
        assert answer == edited | {"revision": 2, "updated_at": "2026-01-02T03:04:10.678Z"}
        assert alice.get(f"{FLOW}/{flow['id']}").json() == answer

    def test_the_response_of_create_can_be_put(self, alice: User) -> None:
        flow = alice.create()
        answer = self.put(alice, flow, flow).json()
        assert answer["pipeline_config"] == flow["pipeline_config"]
        assert answer["revision"] == 2

    def test_putting_a_file_again_keeps_filter_values(self, headwater: Installation, alice: User) -> None:
        flow = alice.create()
        uid = flow["pipeline_config"]["transforms"][0]["uid"]
        alice.post(f"{FLOW}/{flow['id']}/transforms/{uid}/filter-values", {"values": [TOKEN]})
        answer = self.put(alice, flow, flow_body()).json()
        assert answer["pipeline_config"] == flow["pipeline_config"]
        assert headwater.sets.count(filter_set_id(flow["id"], uid)).size == 1

    def test_a_transform_of_another_type_at_a_position_is_new(self, alice: User) -> None:
        flow = alice.create()
        before, [filter_, script] = flow["pipeline_config"]["transforms"], flow_body()["pipeline_config"]["transforms"]
        other = [script | {"script": "function process() {}"}, filter_ | {"filter_expr": "root = this.from_address"}]
        after = self.put(alice, flow, flow_body(transforms=other)).json()["pipeline_config"]["transforms"]
        assert not {t["uid"] for t in after} & {t["uid"] for t in before}

    def test_a_new_filter_starts_with_its_values(self, headwater: Installation, alice: User) -> None:
        flow = alice.create(transforms=[])
        new = {"type": "redis_set_filter", "filter_expr": "root = this.to_address", "set_values": ["X", "y"]}
        response = self.put(alice, flow, flow_body(transforms=[new]))
        uid = response.json()["pipeline_config"]["transforms"][0]["uid"]
        assert "set_values" not in response.text
        assert headwater.sets.contains_many(filter_set_id(flow["id"], uid), ["x", "y"]) == [True, True]

    def test_a_sink_keeps_its_uid_while_its_name_stays(self, alice: User) -> None:
        flow = alice.create(sinks=[{"type": "kafka", "name": "a"}, {"type": "kafka", "name": "b"}])
        before = {sink["name"]: sink["uid"] for sink in flow["pipeline_config"]["sinks"]}
        sinks = [{"type": "kafka", "name": "c", "uid": before["a"]}, {"type": "kafka", "name": "a"}]
        after = self.put(alice, flow, flow_body(sinks=sinks)).json()["pipeline_config"]["sinks"]
        assert after[1]["uid"] == before["a"]
        assert after[0]["uid"] not in before.values()

    def test_invalid_uids_and_values(self, alice: User) -> None:
        flow = alice.create()
        filter_, script = flow["pipeline_config"]["transforms"]
        for transforms, pointer, says in (
            ([filter_, script | {"uid": "other"}], "1/uid", "not the uid of a transform of this configuration"),
            ([filter_, script | {"uid": ""}], "1/uid", "not the uid of a transform of this configuration"),
            ([filter_, filter_], "1/uid", "is also the uid of another transform"),
            ([filter_, script | {"uid": filter_["uid"]}], "1/uid", "is also the uid of another transform"),
            ([V8 | {"uid": filter_["uid"]}], "0/type", "is redis_set_filter for this uid"),
            ([filter_, script | {"name": "a"}, V8 | {"name": "a"}], "2/name", "the name of another transform"),
            ([filter_ | {"name": "a b"}], "0/name", "must match pattern"),
        ):
            faults = alice.faults(self.put(alice, flow, flow_body(transforms=transforms)))
            assert list(faults) == [f"{PIPELINE}/transforms/{pointer}"]
            assert says in faults[f"{PIPELINE}/transforms/{pointer}"]
        assert alice.get(f"{FLOW}/{flow['id']}").json()["revision"] == 1

    def test_is_checked_as_create_is(self, alice: User) -> None:
        flow = alice.create()
        for body, pointer in (
            (flow_body(source={"chain": "x", "entity": "y"}), f"{PIPELINE}/source/chain"),
            (flow_body(transforms=[V8 | {"script": "syntax error"}]), f"{PIPELINE}/transforms/0/script"),
            (flow_body(sinks=[{"type": "kafka", "name": "dlq"}]), f"{PIPELINE}/sinks/0/name"),
            (flow_body() | {"nmae": 1}, "/nmae"),
            (flow_body() | {"v8": 1}, "/v8"),
        ):
            assert list(alice.faults(self.put(alice, flow, body))) == [pointer]

    def test_only_new_scripts_are_compiled(self, alice: User) -> None:
        throws = V8 | {"script": "function process() { throws }"}
        flow = alice.create(transforms=[throws])
        assert flow["warnings"]
        assert "warnings" not in self.put(alice, flow, flow_body(transforms=[throws])).json()
        other = flow_body(transforms=[throws], source={"chain": "base", "entity": "log"})
        assert self.put(alice, flow, other).json()["warnings"] == flow["warnings"]

    def test_the_deployment_is_unchanged(self, headwater: Installation, alice: User) -> None:
        flow = alice.create()
        before = alice.post(f"{FLOW}/{flow['id']}/deploy").json()
        self.put(alice, flow, flow_body(transforms=[]))
        assert alice.get(f"{FLOW}/{flow['id']}/deploy").json() == before
        assert alice.post(f"{FLOW}/{flow['id']}/deploy").json()["revision"] == 2

    def test_concurrent_changes_are_all_saved(self, alice: User) -> None:
        flow = alice.create()
        path = f"{FLOW}/{flow['id']}"
        sent = [alice.start("PUT", path, json=flow_body() | {"name": f"n{i}"}) for i in range(30)]
        answers = [response.result() for response in sent]
        assert {answer.status_code for answer in answers} == {200}
        names = {answer.json()["revision"]: answer.json()["name"] for answer in answers}
        assert sorted(names) == list(range(2, 32))
        assert alice.get(path).json()["name"] == names[31]

    def test_one_of_many_concurrent_requests_wins_with_if_match(self, alice: User) -> None:
        flow = alice.create()
        path, headers = f"{FLOW}/{flow['id']}", {"If-Match": '"1"'}
        sent = [alice.start("PUT", path, json=flow_body(), headers=headers) for _ in range(20)]
        assert sorted(response.result().status_code for response in sent) == [200] + [412] * 19

    def test_another_owners_resource_is_not_found(self, alice: User, bob: User) -> None:
        flow = alice.create()
        bob.problem(self.put(bob, flow, flow_body()), 404, "not-found")
        assert alice.get(f"{FLOW}/{flow['id']}").json()["revision"] == 1
