"""A user looks at what was changed, and goes back to an earlier revision."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conformance.owner import FLOW, Owner, json, owner
from tests.acceptance.installation import Deployed, Installation, pipeline, reading

FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.token_address"}
SCRIPT = {"type": "v8", "script": "function process(record) {\n  return {n: record.n};\n}\n"}
CHANGED = {"type": "v8", "script": "function process(record) {\n  return {n: -record.n};\n}\n"}


@pytest.fixture(scope="module")
def author(installation: Installation) -> Iterator[Owner]:
    with owner(installation, "author") as new_owner:
        yield new_owner


@pytest.fixture
def flow(author: Owner) -> dict[str, Any]:
    """Save a configuration, and remove its filter and change its script in revision 2."""
    created = author.create(transforms=[FILTER | {"set_values": ["wanted"]}, SCRIPT])
    uid = created["pipeline_config"]["transforms"][1]["uid"]
    body = pipeline(name="changed", transforms=[CHANGED | {"uid": uid}])
    assert json(author.http.put(f"{FLOW}/{created['id']}", json=body))["revision"] == 2
    return created


@pytest.mark.proves(
    "11/GET /{config_id}/revisions",
    "11/GET /{config_id}/revisions/{revision}",
    "11/GET /{config_id}/revisions/{revision}/diff",
)
def test_what_was_changed(author: Owner, flow: dict[str, Any]) -> None:
    path = f"{FLOW}/{flow['id']}/revisions"
    second, first = json(author.http.get(path))["items"]
    assert (first["revision"], second["revision"]) == (1, 2)
    key_id = json(author.http.get(f"{FLOW}/me"))["key_id"]
    assert {first["saved_by"], second["saved_by"]} == {key_id}
    assert set(second["changed"]) == {"name", "transforms"}
    assert (second["deployed_at"], second["condition"]) == (None, None)
    assert json(author.http.get(f"{path}/1")) == flow
    changes = json(author.http.get(f"{path}/2/diff"))
    uid = flow["pipeline_config"]["transforms"][1]["uid"]
    assert "-  return {n: record.n};" in changes["scripts"][uid]
    assert "+  return {n: -record.n};" in changes["scripts"][uid]
    assert "redis_set_filter" in changes["diff"]
    page = json(author.http.get(path, params={"limit": 1}))
    assert [item["revision"] for item in page["items"]] == [2]
    rest = json(author.http.get(path, params={"limit": 1, "cursor": page["cursor"]}))
    assert [item["revision"] for item in rest["items"]] == [1]


@pytest.mark.proves("11/POST /{config_id}/rollback", "11/GET /{config_id}/revisions")
def test_a_rollback_of_a_deployed_pipeline(installation: Installation, author: Owner, flow: dict[str, Any]) -> None:
    path = f"{FLOW}/{flow['id']}"
    deployment = Deployed(flow["id"], flow, json(author.http.post(f"{path}/deploy")))
    answer = json(author.http.post(f"{path}/rollback", json={"revision": 1}))
    assert (answer["status"], answer["revision"]) == ("deployed", 3)
    newest = json(author.http.get(path))
    assert newest["pipeline_config"]["transforms"] == flow["pipeline_config"]["transforms"]
    items = json(author.http.get(f"{path}/revisions"))["items"]
    assert [item["revision"] for item in items if item["deployed_at"]] == [3, 2]
    installation.feed("base", "erc20_token_transfer", [{"n": 1, "token_address": "other"}])
    installation.feed("base", "erc20_token_transfer", [{"n": 2, "token_address": "wanted"}])
    with reading(deployment.sink) as reader:
        assert [record.json() for record in reader.read(1)] == [{"n": 2}]


@pytest.mark.proves("11/POST /{config_id}/rollback")
def test_a_rollback_of_a_draft(author: Owner, flow: dict[str, Any]) -> None:
    path = f"{FLOW}/{flow['id']}"
    answer = json(author.http.post(f"{path}/rollback", json={"revision": 1}))
    assert (answer["id"], answer["name"], answer["revision"]) == (flow["id"], flow["name"], 3)
    uid = answer["pipeline_config"]["transforms"][0]["uid"]
    values = json(author.http.get(f"{path}/transforms/{uid}/filter-values"))["values"]
    assert values == ["wanted"]
