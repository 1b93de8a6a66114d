"""Pausing, resuming and rewinding: /api/v1/flow/{config_id}/pause, …/resume and …/rewind."""

from typing import Any

import pytest

from headwater.model.deployment import DesiredPhase
from headwater.model.positions import Move, OffsetGap
from tests.unit.api.installation import FLOW, Installation, User, installation


@pytest.fixture
def config_id(alice: User) -> str:
    config_id: str = alice.create()["id"]
    return config_id


@pytest.fixture
def deployed(alice: User, config_id: str) -> str:
    """Return the URL of a deployed configuration."""
    url = f"{FLOW}/{config_id}"
    assert alice.post(f"{url}/deploy").status_code == 200
    return url


class TestPause:
    def test_a_pipeline_is_paused(self, alice: User, deployed: str, config_id: str) -> None:
        before = alice.get(f"{deployed}/deploy").json()
        for _ in range(2):
            response = alice.post(f"{deployed}/pause")
            assert response.json() == {"message": f"Pipeline {config_id} successfully paused"}
        seen = alice.get(f"{deployed}/deploy").json()
        assert seen["status"] == "paused"
        assert (seen["condition"], seen["reason"], seen["workers"]) == ("Stable", "", 0)
        assert seen["sinks"] == before["sinks"]
        assert alice.get(f"{deployed}/deploy/stats").json()["workers_health"]["total_workers"] == 0

    @pytest.mark.parametrize("call", ["deploy", "pause", "resume", "teardown", "deploy/credentials"])
    def test_a_body_with_members(self, alice: User, deployed: str, call: str) -> None:
        """The members would have no effect, which the client should learn."""
        for body in ({"force": True}, {"x": "y" * 100_000}, [1]):
            pointers = ["/force"] if "force" in body else [""]
            assert [*alice.faults(alice.post(f"{deployed}/{call}", body))] == pointers
        assert alice.post(f"{deployed}/{call}", {}).status_code in (200, 409)

    def test_a_pause_during_a_rollout(self) -> None:
        with installation(deploy_timeout_s=0.3) as headwater:
            alice = headwater.user("alice")
            url = f"{FLOW}/{alice.create()['id']}"
            headwater.controller.asleep = True
            alice.problem(alice.post(f"{url}/deploy"), 503, "deploy-pending")
            headwater.controller.asleep = False
            alice.finish("POST", f"{url}/pause")
            seen = alice.get(f"{url}/deploy").json()
            assert (seen["condition"], seen["reason"], seen["workers"]) == ("Stable", "", 0)
            [item] = alice.get(f"{FLOW}/overview").json()["items"]
            assert (item["state"], item["condition"]) == ("paused", "Stable")

    def test_what_is_not_deployed(self, alice: User, config_id: str) -> None:
        for call in ("pause", "resume"):
            body = alice.problem(alice.post(f"{FLOW}/{config_id}/{call}"), 409, "conflict")
            assert "draft" in body["detail"]
            alice.problem(alice.post(f"{FLOW}/unknown/{call}"), 404, "not-found")

    def test_another_owner(self, headwater: Installation, deployed: str) -> None:
        bob = headwater.user("bob")
        for call in ("pause", "resume"):
            bob.problem(bob.post(f"{deployed}/{call}"), 404, "not-found")
        bob.problem(bob.post(f"{deployed}/rewind", {"to": "earliest"}), 404, "not-found")

    def test_the_scope(self, headwater: Installation, deployed: str) -> None:
        reader = headwater.user("alice", scopes=("flow:read", "flow:write"))
        for call, body in (("pause", None), ("resume", None), ("rewind", {"to": "earliest"})):
            refused = reader.problem(reader.post(f"{deployed}/{call}", body), 403, "forbidden")
            assert "flow:deploy" in refused["detail"]

    def test_in_progress(self) -> None:
        with installation(deploy_timeout_s=0.3) as headwater:
            alice = headwater.user("alice")
            url = f"{FLOW}/{alice.create()['id']}"
            alice.post(f"{url}/deploy")
            headwater.controller.asleep = True
            alice.problem(alice.post(f"{url}/pause"), 503, "deploy-pending")
            assert alice.get(f"{url}/deploy").json()["status"] == "pausing"

    def test_a_changed_transform_is_saved_and_the_pipeline_stays_paused(
        self, headwater: Installation, alice: User, deployed: str, config_id: str
    ) -> None:
        alice.post(f"{deployed}/pause")
        flow = alice.get(deployed).json()
        script = flow["pipeline_config"]["transforms"][1]
        body = {"type": "v8", "script": "function process(record) { return null; }"}
        assert alice.patch(f"{deployed}/transforms/{script['uid']}", body).status_code == 200
        assert alice.put(f"{deployed}/transforms", [body]).status_code == 200
        seen = alice.get(f"{deployed}/deploy").json()
        assert (seen["status"], seen["revision"]) == ("paused", 1)
        resumed = alice.post(f"{deployed}/resume").json()
        assert (resumed["status"], resumed["revision"], resumed["gaps"]) == ("deployed", 3, [])
        active = headwater.database.deployments.active(config_id)
        assert active is not None
        assert active.desired is DesiredPhase.RUNNING

    def test_a_paused_pipeline_is_torn_down(self, alice: User, deployed: str) -> None:
        alice.post(f"{deployed}/pause")
        assert alice.post(f"{deployed}/teardown").status_code == 200
        alice.problem(alice.post(f"{deployed}/resume"), 409, "conflict")


class TestResume:
    def test_the_answer_is_that_of_a_deploy_and_names_the_gaps(
        self, headwater: Installation, alice: User, deployed: str
    ) -> None:
        running = alice.post(f"{deployed}/deploy").json()
        alice.post(f"{deployed}/pause")
        headwater.controller.gaps = (OffsetGap(partition=3, start=5, end=9),)
        for _ in range(2):
            resumed = alice.post(f"{deployed}/resume")
            assert resumed.status_code == 200
            assert resumed.json() == running | {"gaps": [{"partition": 3, "from": 5, "to": 9}]}

    def test_a_pipeline_that_runs(self, alice: User, deployed: str) -> None:
        assert alice.post(f"{deployed}/resume").json()["gaps"] == []

    def test_a_deploy_resumes_too(self, alice: User, deployed: str) -> None:
        alice.post(f"{deployed}/pause")
        assert alice.post(f"{deployed}/deploy").json()["status"] == "deployed"

    def test_the_reason_of_a_failure(self, headwater: Installation, alice: User, deployed: str) -> None:
        alice.post(f"{deployed}/pause")
        headwater.controller.reasons = ["The topic was deleted and created again."]
        body = alice.problem(alice.post(f"{deployed}/resume"), 422, "deploy-failed")
        assert body["detail"] == "The topic was deleted and created again."


class TestRewind:
    def test_the_answer_has_the_positions(
        self, headwater: Installation, alice: User, deployed: str, config_id: str
    ) -> None:
        headwater.controller.moves = {0: Move(before=7, after=0), 11: Move(before=None, after=3)}
        response = alice.post(f"{deployed}/rewind", {"to": {"0": 0, "3": 5}})
        assert response.json() == {
            "message": f"Pipeline {config_id} successfully rewound",
            "positions": {"0": {"before": 7, "after": 0}, "11": {"before": None, "after": 3}},
        }
        active = headwater.database.deployments.active(config_id)
        assert active is not None
        assert active.rewind is not None
        assert active.rewind.to == {0: 0, 3: 5}
        assert alice.get(f"{deployed}/deploy").json()["status"] == "deployed"

    def test_a_time_in_the_future(self, alice: User, deployed: str) -> None:
        faults = alice.faults(alice.post(f"{deployed}/rewind", {"to": "2999-01-01T00:00:00Z"}))
        assert [*faults] == ["/to"]
        assert "in the future" in faults["/to"]

    @pytest.mark.parametrize("to", ["earliest", "latest", "2026-01-02T03:04:05.678Z", "2026-01-02t00:00:00z"])
    def test_a_paused_pipeline_stays_paused(self, alice: User, deployed: str, to: str) -> None:
        alice.post(f"{deployed}/pause")
        assert alice.post(f"{deployed}/rewind", {"to": to}).status_code == 200
        assert alice.get(f"{deployed}/deploy").json()["status"] == "paused"

    @pytest.mark.parametrize(
        ("to", "pointers"),
        [
            ("soon", ["/to"]),
            ("", ["/to"]),
            ("1969-12-31T23:59:59Z", ["/to"]),
            (5, ["/to"]),
            (True, ["/to"]),
            (None, ["/to"]),
            ([], ["/to"]),
            ({}, ["/to"]),
            ({"4": 1, "0": 1, "5": 1}, ["/to/4", "/to/5"]),
            ({"0": 10_000, "1": 10_001}, ["/to/1"]),
            ({"0": -1, "1": "1", "2": 1.5, "3": True}, ["/to/0", "/to/1", "/to/2", "/to/3"]),
            ({"0": 2**63}, ["/to/0"]),
            ({"a/b": 1, "01": 1, "-1": 1, "99999999999": 1}, ["/to/a~1b", "/to/01", "/to/-1", "/to/99999999999"]),
        ],
    )
    def test_a_bad_target(self, alice: User, deployed: str, to: Any, pointers: list[str]) -> None:
        assert sorted(alice.faults(alice.post(f"{deployed}/rewind", {"to": to}))) == sorted(pointers)

    def test_other_bad_bodies(self, alice: User, deployed: str) -> None:
        assert alice.faults(alice.post(f"{deployed}/rewind", {})).keys() == {"/to"}
        assert alice.faults(alice.post(f"{deployed}/rewind", {"to": "latest", "then": 1})).keys() == {"/then"}

    def test_offsets_of_a_stream_without_offsets(self, alice: User) -> None:
        url = f"{FLOW}/{alice.create(source={'chain': 'solana', 'entity': 'nonvoting_transaction'})['id']}"
        alice.post(f"{url}/deploy")
        assert alice.faults(alice.post(f"{url}/rewind", {"to": {"0": 1}})).keys() == {"/to"}
        assert alice.post(f"{url}/rewind", {"to": "earliest"}).json()["positions"] == {}

    def test_a_rewind_that_is_not_possible(self, headwater: Installation, alice: User, deployed: str) -> None:
        headwater.controller.rewind_error = "The topic keeps no messages."
        body = alice.problem(alice.post(f"{deployed}/rewind", {"to": "earliest"}), 422, "deploy-failed")
        assert body["detail"] == "The topic keeps no messages."
        assert alice.get(f"{deployed}/deploy").json()["status"] == "deployed"

    def test_a_repeat_after_503_moves_nothing_again(self) -> None:
        with installation(deploy_timeout_s=1) as headwater:
            alice = headwater.user("alice")
            config_id = alice.create()["id"]
            url = f"{FLOW}/{config_id}"
            alice.post(f"{url}/deploy")
            headwater.controller.asleep = True
            alice.problem(alice.post(f"{url}/rewind", {"to": "latest"}), 503, "deploy-pending")
            seen = alice.get(f"{url}/deploy").json()["rewind"]
            assert (seen["to"], seen["state"], seen["positions"], seen["error"]) == ("latest", "pending", {}, "")
            headwater.controller.asleep = False
            headwater.controller.moves = {0: Move(before=7, after=9)}
            headwater.controller.active(config_id)
            headwater.controller.moves = {0: Move(before=9, after=12)}
            repeated = alice.post(f"{url}/rewind", {"to": "latest"}).json()
            assert repeated["positions"] == {"0": {"before": 7, "after": 9}}
            seen = alice.get(f"{url}/deploy").json()["rewind"]
            assert (seen["state"], seen["positions"]) == ("done", repeated["positions"])
            another = alice.post(f"{url}/rewind", {"to": "latest"}).json()
            assert another["positions"] == {"0": {"before": 9, "after": 12}}

    def test_what_is_not_deployed(self, alice: User, config_id: str) -> None:
        for to in ("earliest", {"0": 1}):
            body = alice.problem(alice.post(f"{FLOW}/{config_id}/rewind", {"to": to}), 409, "conflict")
            assert "draft" in body["detail"]
