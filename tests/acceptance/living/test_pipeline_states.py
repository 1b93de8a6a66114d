"""Which calls a pipeline allows in which state, and with which scopes."""

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.acceptance.conformance.owner import FILTER, FLOW, Owner, filter_path, json, owner
from tests.acceptance.installation import Deployed, Installation, pipeline, reading

MARKS = "function process(record) {{ return {{n: record.n, mark: '{}'}}; }}"
CHANGES: dict[str, Any] = {
    "pause": None,
    "resume": None,
    "rewind": {"to": "latest"},
    "dead-letters/redrive": {"all": True},
}
"""The calls that need a deployment, with their bodies."""


@pytest.fixture(scope="module")
def operator(installation: Installation) -> Iterator[Owner]:
    with owner(installation, "operator") as new_owner:
        yield new_owner


@contextlib.contextmanager
def second_key(installation: Installation, first: Owner, *scopes: str) -> Iterator[httpx2.Client]:
    """Create another key of the owner, with these scopes."""
    name = json(first.http.get(f"{FLOW}/me"))["owner"]
    options = [part for scope in scopes for part in ("--scope", scope)]
    result = installation.run("keys", "create", "--owner", name, *options)
    with installation.client(result.stdout.strip()) as http:
        yield http


def script(mark: str) -> dict[str, str]:
    return {"type": "v8", "script": MARKS.format(mark)}


def state(operator: Owner, flow: dict[str, Any]) -> str:
    [item] = json(operator.http.get(f"{FLOW}/overview", params={"q": flow["id"]}))["items"]
    return str(item["state"])


@pytest.mark.proves("11/a-configuration-that-is-not-deployed", "11/a-state-that-does-not-allow")
def test_a_draft(operator: Owner) -> None:
    flow = operator.create(transforms=[FILTER])
    path = f"{FLOW}/{flow['id']}"
    assert state(operator, flow) == "draft"
    for call, body in CHANGES.items():
        assert "draft" in json(operator.http.post(f"{path}/{call}", json=body), 409)["detail"], call
    reads = ("deploy/records", "deploy/records/tail", "dead-letters", "dead-letters/summary")
    for read in (*(f"{path}/{name}" for name in reads), f"{filter_path(flow)}/applied"):
        json(operator.http.get(read), 404)


@pytest.mark.proves("11/while-a-pipeline-is-paused", "11/a-state-that-does-not-allow", "11/GET /overview")
def test_a_paused_pipeline(installation: Installation, operator: Owner) -> None:
    flow = operator.create(transforms=[script("before")])
    path = f"{FLOW}/{flow['id']}"
    deployment = Deployed(flow["id"], flow, json(operator.http.post(f"{path}/deploy")))
    json(operator.http.post(f"{path}/pause"))
    assert state(operator, flow) == "paused"
    assert "paused" in json(operator.http.post(f"{path}/dead-letters/redrive", json={"all": True}), 409)["detail"]
    assert json(operator.http.get(f"{path}/dead-letters"))["items"] == []
    json(operator.http.patch(f"{path}/transforms/{deployment.uid()}", json=script("after")))
    assert state(operator, flow) == "paused"
    installation.feed("base", "erc20_token_transfer", [{"n": 1}])
    json(operator.http.post(f"{path}/deploy"))
    assert state(operator, flow) == "deployed"
    with reading(deployment.sink) as reader:
        assert [record.json() for record in reader.read(1)] == [{"n": 1, "mark": "after"}]


@pytest.mark.proves("11/scopes")
def test_scopes(installation: Installation, operator: Owner) -> None:
    flow = operator.create(transforms=[FILTER])
    path = f"{FLOW}/{flow['id']}"
    json(operator.http.post(f"{path}/deploy"))
    with second_key(installation, operator, "flow:read") as reader:
        for call, body in CHANGES.items():
            assert "flow:deploy" in json(reader.post(f"{path}/{call}", json=body), 403)["detail"], call
        assert "flow:write" in json(reader.post(f"{path}/rollback", json={"revision": 1}), 403)["detail"]
        for read in ("deploy/records", "dead-letters", "dead-letters/summary", "revisions", "revisions/1"):
            json(reader.get(f"{path}/{read}"))
        for read in (f"{FLOW}/overview", f"{FLOW}/me", f"{FLOW}/limits", f"{filter_path(flow)}/applied"):
            json(reader.get(read))
        json(reader.get(f"{FLOW}/streams/base/log/records"))
    with second_key(installation, operator, "flow:read", "flow:write") as writer:
        assert "flow:deploy" in json(writer.post(f"{path}/rollback", json={"revision": 1}), 403)["detail"]
        json(operator.http.post(f"{path}/teardown"))
        json(writer.put(path, json=pipeline(transforms=[FILTER], name="changed")))
        assert json(writer.post(f"{path}/rollback", json={"revision": 1}))["name"] == "test"
    with second_key(installation, operator, "flow:write", "flow:deploy") as blind:
        for read in (f"{FLOW}/overview", f"{FLOW}/me", f"{FLOW}/limits", f"{path}/dead-letters"):
            assert "flow:read" in json(blind.get(read), 403)["detail"], read
