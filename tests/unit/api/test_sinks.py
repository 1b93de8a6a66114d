"""Members of a sink that configure its topic: stored, shown and rejected values."""

from typing import Any

import pytest

from headwater.services.deployments import Deployments, KafkaEndpoint, Login
from headwater.services.ids import new_id
from tests.unit.api.installation import FLOW, Installation, User, flow_body, installation

MEMBERS = {
    "partitions": 2,
    "retention_ms": 3_600_000,
    "retention_bytes": 1 << 20,
    "compression": "zstd",
    "cleanup_policy": "compact,delete",
}
SINK = {"type": "kafka", "name": "a"}


def sinks_of(flow: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = flow["pipeline_config"]["sinks"]
    return found


class TestMembers:
    def test_members_are_stored_and_returned(self, alice: User) -> None:
        flow = alice.create(sinks=[SINK | MEMBERS, {"type": "kafka", "name": "plain"}])
        full, plain = sinks_of(alice.get(f"{FLOW}/{flow['id']}").json())
        assert {name: full[name] for name in MEMBERS} == MEMBERS
        assert set(plain) == {"uid", "type", "name"}

    def test_deploy_returns_the_deployed_members(self, alice: User) -> None:
        flow = alice.create(sinks=[SINK | MEMBERS, {"type": "kafka", "name": "plain"}])
        full, plain = alice.post(f"{FLOW}/{flow['id']}/deploy").json()["sinks"]
        assert {name: full[name] for name in MEMBERS} == MEMBERS
        assert not MEMBERS.keys() & plain.keys()

    def test_integers_may_be_written_as_floats(self, alice: User) -> None:
        flow = alice.create(sinks=[SINK | {"partitions": 2.0, "retention_ms": 1e9}])
        assert [sinks_of(flow)[0][name] for name in ("partitions", "retention_ms")] == [2, 10**9]

    def test_null_is_the_default(self, alice: User) -> None:
        flow = alice.create(sinks=[SINK | dict.fromkeys(MEMBERS)])
        assert set(sinks_of(flow)[0]) == {"uid", "type", "name"}

    def test_get_edit_put(self, alice: User) -> None:
        flow = alice.create(sinks=[SINK | MEMBERS])
        sinks_of(flow)[0] |= {"partitions": 3, "retention_ms": None}
        answer = alice.request("PUT", f"{FLOW}/{flow['id']}", json=flow)
        assert answer.status_code == 200
        [sink] = sinks_of(answer.json())
        assert sink["partitions"] == 3
        assert "retention_ms" not in sink
        assert sink["compression"] == "zstd"

    def test_patching_a_transform_keeps_the_members(self, alice: User) -> None:
        flow = alice.create(sinks=[SINK | MEMBERS])
        script = flow["pipeline_config"]["transforms"][1]
        changed = {"type": "v8", "script": "function process() { return null; }"}
        alice.request("PATCH", f"{FLOW}/{flow['id']}/transforms/{script['uid']}", json=changed)
        assert sinks_of(alice.get(f"{FLOW}/{flow['id']}").json()) == sinks_of(flow)

    @pytest.mark.parametrize(
        ("members", "pointer"),
        [
            ({"partitions": 65}, "partitions"),
            ({"partitions": 0}, "partitions"),
            ({"partitions": "2"}, "partitions"),
            ({"partitions": 2.5}, "partitions"),
            ({"partitions": True}, "partitions"),
            ({"retention_ms": 31 * 24 * 3600 * 1000}, "retention_ms"),
            ({"retention_ms": -1}, "retention_ms"),
            ({"retention_bytes": (10 << 30) + 1}, "retention_bytes"),
            ({"compression": "brotli"}, "compression"),
            ({"cleanup_policy": "delete, compact"}, "cleanup_policy"),
        ],
    )
    def test_values_out_of_bounds_are_rejected(self, alice: User, members: dict[str, Any], pointer: str) -> None:
        sent = alice.post(FLOW, flow_body(sinks=[SINK | members]))
        assert list(alice.faults(sent)) == [f"/pipeline_config/sinks/0/{pointer}"]
        tried = alice.post(f"{FLOW}/validate", flow_body(sinks=[SINK | members]))
        assert list(alice.faults(tried)) == [f"/pipeline_config/sinks/0/{pointer}"]

    def test_a_number_over_the_operators_limit_names_the_limit(self, alice: User) -> None:
        sent = alice.post(FLOW, flow_body(sinks=[SINK | {"retention_ms": 10**13}]))
        [detail] = alice.faults(sent).values()
        assert "at most 2592000000 (30 days)" in detail

    def test_a_prices_sink_rejects_the_members(self, alice: User) -> None:
        for member, value in MEMBERS.items():
            sent = alice.post(FLOW, flow_body(sinks=[{"type": "prices", "name": "p", member: value}]))
            [(pointer, detail)] = alice.faults(sent).items()
            assert pointer == f"/pipeline_config/sinks/0/{member}"
            assert "a prices sink has no topic of its own" in detail


class TestPartitions:
    @pytest.fixture
    def flow(self, alice: User) -> dict[str, Any]:
        return alice.create(sinks=[SINK | {"partitions": 4}])

    def put(self, user: User, flow: dict[str, Any], **members: Any) -> Any:
        return user.request("PUT", f"{FLOW}/{flow['id']}", json=flow_body(sinks=[SINK | members]))

    def test_partitions_may_grow(self, alice: User, flow: dict[str, Any]) -> None:
        assert sinks_of(self.put(alice, flow, partitions=8).json())[0]["partitions"] == 8

    def test_partitions_never_shrink(self, alice: User, flow: dict[str, Any]) -> None:
        refused = self.put(alice, flow, partitions=3)
        [(pointer, detail)] = alice.faults(refused).items()
        assert pointer == "/pipeline_config/sinks/0/partitions"
        assert "the sink has 4" in detail

    def test_of_a_sink_with_another_name_are_free(self, alice: User, flow: dict[str, Any]) -> None:
        assert self.put(alice, flow, partitions=1, name="b").status_code == 200


def given(login: Login) -> dict[str, Any]:
    """Return the services of an installation whose operator manages the users of Kafka."""
    return {"kafka": KafkaEndpoint("kafka.example:9092", "SASL_SSL", "PLAIN", login)}


class TestGivenCredentials:
    def test_deploy_returns_the_operators_credentials(self) -> None:
        with installation(**given(Login("reader", "its password"))) as headwater:
            alice = headwater.user("alice")
            flow = alice.create()
            [sink] = alice.post(f"{FLOW}/{flow['id']}/deploy").json()["sinks"]
            assert (sink["username"], sink["password"], sink["sasl_mechanism"]) == ("reader", "its password", "PLAIN")
            assert sink["consumer_group"].startswith("dep-")
            assert all("its password" in program for program in sink["snippets"].values())

    def test_programs_have_no_login_without_credentials(self) -> None:
        with installation(**given(Login(None, None))) as headwater:
            alice = headwater.user("alice")
            flow = alice.create()
            [sink] = alice.post(f"{FLOW}/{flow['id']}/deploy").json()["sinks"]
            assert (sink["username"], sink["password"]) == (None, None)
            assert all("sasl" not in program for program in sink["snippets"].values())

    def test_rotation_is_refused(self, headwater: Installation) -> None:
        store = headwater.database
        deployments = Deployments(
            flows=store.flows,
            store=headwater.controller,
            now=headwater.clock,
            new_id=new_id,
            new_password=lambda: "secret",
            source_ends=lambda _: dict.fromkeys(range(4), 10),
            manages_users=False,
        )
        with headwater.serving(deployments=deployments):
            alice, bob = headwater.user("alice"), headwater.user("bob")
            flow = alice.create()
            url = f"{FLOW}/{flow['id']}/deploy/credentials"
            alice.problem(alice.post(url), 404, "not-found")
            alice.post(f"{FLOW}/{flow['id']}/deploy")
            refused = alice.problem(alice.post(url), 409, "conflict")
            assert "operator" in refused["detail"]
            bob.problem(bob.post(url), 404, "not-found")
            deployment = store.deployments.active(flow["id"])
            assert deployment is not None
            assert deployment.credentials_version == 1
