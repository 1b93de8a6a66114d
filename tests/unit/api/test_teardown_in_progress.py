"""A configuration whose teardown is in progress is a draft, although its workers still run."""

from typing import Any

import pytest

from headwater.model.deployment import dead_letter_topic
from tests.unit.api.installation import FLOW, Installation, User, flow_body


@pytest.fixture
def path(headwater: Installation, alice: User) -> str:
    """Return the path of a configuration whose workers end slowly during its teardown."""
    config_id = alice.create()["id"]
    assert alice.post(f"{FLOW}/{config_id}/deploy").status_code == 200
    for topic in (f"flow.{config_id}.out", dead_letter_topic(config_id)):
        headwater.history.create(topic, 1)
    headwater.controller.asleep = True
    headwater.database.deployments.request_teardown(config_id)
    return f"{FLOW}/{config_id}"


@pytest.mark.parametrize(
    "call", ["deploy/records?sink=dlq", "deploy/records/tail", "dead-letters", "dead-letters/summary"]
)
def test_its_records_are_not_found(alice: User, path: str, call: str) -> None:
    body = alice.problem(alice.get(f"{path}/{call}"), 404, "not-found")
    assert "not deployed" in body["detail"]


def test_its_tail_is_not_found(alice: User, path: str) -> None:
    config_id = path.rpartition("/")[2]
    body = alice.problem(alice.get(f"{FLOW}/tail?of={config_id}/dlq"), 404, "not-found")
    assert "not deployed" in body["detail"]


def test_its_applied_versions_are_not_found(alice: User, path: str) -> None:
    uid = alice.get(path).json()["pipeline_config"]["transforms"][0]["uid"]
    alice.problem(alice.get(f"{path}/transforms/{uid}/filter-values/applied"), 404, "not-found")


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("pause", None),
        ("resume", None),
        ("rewind", {"to": "latest"}),
        ("rewind", {"to": {"0": 1}}),
        ("dead-letters/redrive", {"all": True}),
        ("dead-letters/redrive", {"all": True, "dry_run": True}),
    ],
)
def test_its_workers_do_not_change(alice: User, path: str, call: str, body: Any) -> None:
    problem = alice.problem(alice.post(f"{path}/{call}", body), 409, "conflict")
    assert "state draft" in problem["detail"]


def test_nothing_is_compared_with_it(alice: User, path: str) -> None:
    body = flow_body() | {"id": path.rpartition("/")[2], "against": "deployed"}
    problem = alice.problem(alice.post(f"{FLOW}/validate", body), 409, "conflict")
    assert "draft" in problem["detail"]


def test_the_progress_of_the_teardown_is_shown(alice: User, path: str) -> None:
    assert alice.get(f"{path}/deploy").json()["status"] == "terminating"
    assert alice.get(f"{path}/deploy/stats").status_code == 200
    assert [item["state"] for item in alice.get(f"{FLOW}/overview").json()["items"]] == ["draft"]
