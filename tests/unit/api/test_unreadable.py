"""Configurations that this version can't read are shown as stored.

PUT repairs them.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from headwater.model.stored_config import read_pipeline_config, write_pipeline_config
from headwater.model.value_sets import filter_set_id
from tests.unit.api.installation import FLOW, TOKEN, Installation, User, flow_body


class Damaged:
    """One of three configurations, stored as a version with another limit would store it."""

    def __init__(self, headwater: Installation, user: User) -> None:
        self.user = user
        self.others = [user.create()["id"]]
        flow_created = user.create()
        self.others.append(user.create()["id"])
        self.path = f"{FLOW}/{flow_created['id']}"
        self.transforms = flow_created["pipeline_config"]["transforms"]
        flow = headwater.database.flows.get("alice", flow_created["id"])
        self.stored: dict[str, Any] = json.loads(write_pipeline_config(flow.pipeline_config)) | {"parallelism": 1000}
        config = read_pipeline_config(json.dumps(self.stored))
        headwater.database.flows.save(replace(flow, revision=2, pipeline_config=config))


@pytest.fixture
def damaged(headwater: Installation, alice: User) -> Damaged:
    return Damaged(headwater, alice)


def test_it_is_returned_as_stored(damaged: Damaged) -> None:
    response = damaged.user.get(damaged.path)
    assert response.status_code == 200
    assert response.headers["etag"] == '"2"'
    read = response.json()
    assert read["pipeline_config"] == damaged.stored
    assert "/pipeline_config/parallelism" in read["unreadable"]
    listed = damaged.user.get(FLOW).json()
    assert sorted("unreadable" in flow for flow in listed) == [False, False, True]
    assert read in listed


def test_it_cannot_be_deployed_or_patched(damaged: Damaged) -> None:
    script = damaged.transforms[1]
    for response in (
        damaged.user.request("PATCH", f"{damaged.path}/transforms/{script['uid']}", json=script),
        damaged.user.put(f"{damaged.path}/transforms", [script]),
        damaged.user.post(f"{damaged.path}/deploy"),
    ):
        problem = damaged.user.problem(response, 409, "unreadable")
        assert "/pipeline_config/parallelism" in problem["detail"]
        assert "PUT" in problem["detail"]


def test_put_repairs_it_and_filters_keep_their_values(damaged: Damaged, headwater: Installation) -> None:
    """The body of GET can be sent back after a correction of its fault."""
    values = f"{damaged.path}/transforms/{damaged.transforms[0]['uid']}/filter-values"
    assert damaged.user.post(values, {"values": [TOKEN]}).json()["added"] == 1
    read = damaged.user.get(damaged.path).json()
    read["pipeline_config"]["parallelism"] = 2
    mended = damaged.user.put(damaged.path, read)
    assert mended.status_code == 200
    assert "unreadable" not in mended.json()
    assert mended.json()["pipeline_config"]["transforms"] == damaged.transforms
    assert damaged.user.get(values).json()["values"] == [TOKEN]
    assert damaged.user.post(f"{damaged.path}/deploy").json()["revision"] == 3


def test_a_body_without_uids_repairs_it(damaged: Damaged) -> None:
    mended = damaged.user.put(damaged.path, flow_body()).json()
    assert mended["pipeline_config"]["transforms"] == damaged.transforms


def test_delete_works(damaged: Damaged, headwater: Installation) -> None:
    target = filter_set_id(damaged.path.rpartition("/")[2], damaged.transforms[0]["uid"])
    headwater.sets.add(target, [TOKEN])
    assert damaged.user.delete(damaged.path).status_code == 200
    assert damaged.user.get(damaged.path).status_code == 404
    assert headwater.sets.count(target).size == 0


def test_all_others_are_unaffected(damaged: Damaged) -> None:
    for other in damaged.others:
        assert damaged.user.post(f"{FLOW}/{other}/deploy").json()["status"] == "deployed"
        script = {"type": "v8", "script": "function process(record) { return record; }"}
        assert damaged.user.put(f"{FLOW}/{other}/transforms", [script]).status_code == 200


@pytest.mark.parametrize("text", ["no JSON", "[1]"])
def test_any_stored_configuration_can_be_read_and_repaired(headwater: Installation, alice: User, text: str) -> None:
    flow_created = alice.create()
    flow = headwater.database.flows.get("alice", flow_created["id"])
    headwater.database.flows.save(replace(flow, revision=2, pipeline_config=read_pipeline_config(text)))
    path = f"{FLOW}/{flow_created['id']}"
    assert alice.get(path).json()["pipeline_config"] == (json.loads(text) if text == "[1]" else text)
    assert alice.put(path, flow_body()).json()["revision"] == 3
    assert alice.post(f"{path}/deploy").status_code == 200
