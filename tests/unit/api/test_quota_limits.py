"""Quotas in responses of the API."""

from headwater.model.quota import QUOTA_NAMES
from tests.unit.api.installation import FLOW, Installation, User, flow_body

WITH_VALUES = {"type": "redis_set_filter", "filter_expr": "root = this.a", "set_values": ["a", "b", "c"]}


def test_limits_show_what_is_used_and_allowed(headwater: Installation, alice: User, bob: User) -> None:
    bob.create()
    headwater.database.quotas.set_limits("alice", {"configurations": 2, "datasets": None}, [])
    alice.create(transforms=[WITH_VALUES])
    alice.post(f"{FLOW}/datasets", {"name": "d"})
    shown = alice.get(f"{FLOW}/limits").json()["limits"]
    assert [one["name"] for one in shown] == list(QUOTA_NAMES)
    found = {one["name"]: (one["used"], one["allowed"]) for one in shown}
    assert found["configurations"] == (1, 2)
    assert found["datasets"] == (1, None)
    assert found["set_values"] == (3, None)


def test_limits_need_a_scope(headwater: Installation) -> None:
    carol = headwater.user("carol", ["sets:write"])
    carol.problem(carol.get(f"{FLOW}/limits"), 403, "forbidden")


def test_exceeding_a_quota_is_rejected_with_the_reason(headwater: Installation, alice: User, bob: User) -> None:
    headwater.database.quotas.set_limits("alice", {"configurations": 1, "datasets": 0, "deployments": 0}, [])
    flow = alice.create()
    for response in (
        alice.post(FLOW, flow_body()),
        alice.post(f"{FLOW}/datasets", {"name": "d"}),
        alice.post(f"{FLOW}/{flow['id']}/deploy"),
    ):
        body = alice.problem(response, 403, "quota")
        assert "You have" in body["detail"]
        assert "would have" in body["detail"]
    bob.create()


def test_an_owner_at_the_quota_can_make_a_configuration_smaller(headwater: Installation, alice: User) -> None:
    flow = alice.create()
    used = headwater.database.quotas.usage("alice")["stored_bytes"]
    headwater.database.quotas.set_limits("alice", {"stored_bytes": used}, [])
    path = f"{FLOW}/{flow['id']}"
    shorter = flow_body() | {"description": "shorter"}
    assert alice.put(path, shorter).json()["description"] == "shorter"
    alice.problem(alice.put(path, shorter | {"description": "longer than it was"}), 403, "quota")


def test_a_configuration_over_the_quota_leaves_no_values_behind(headwater: Installation, alice: User) -> None:
    headwater.database.quotas.set_limits("alice", {"configurations": 0, "set_values": 3}, [])
    for _ in range(3):
        alice.problem(alice.post(FLOW, flow_body(transforms=[WITH_VALUES])), 403, "quota")
    assert headwater.reservations.all() == []
    headwater.database.quotas.set_limits("alice", {"configurations": 1}, [])
    alice.create(transforms=[WITH_VALUES])


def test_values_over_the_quota_change_nothing(headwater: Installation, alice: User) -> None:
    headwater.database.quotas.set_limits("alice", {"set_values": 3}, [])
    flow = alice.create(transforms=[WITH_VALUES])
    path = f"{FLOW}/{flow['id']}/transforms/{flow['pipeline_config']['transforms'][0]['uid']}/filter-values"
    alice.problem(alice.post(path, {"values": ["d"]}), 403, "quota")
    alice.problem(alice.put(path, {"values": ["d", "e", "f", "g"]}), 403, "quota")
    assert sorted(alice.get(path).json()["values"]) == ["a", "b", "c"]
    assert alice.put(path, {"values": ["d", "e", "f"]}).json()["count"] == 3
    dataset = alice.post(f"{FLOW}/datasets", {"name": "d"}).json()["id"]
    alice.problem(alice.post(f"{FLOW}/datasets/{dataset}/entries", {"values": ["x"]}), 403, "quota")
