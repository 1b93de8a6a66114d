"""Filter values stay with their transform, and an unreadable row affects no other row."""

import sqlite3
from contextlib import closing

import httpx2
import pytest

from tests.acceptance.installation import Installation, deployed, pipeline, reading
from tests.acceptance.test_configurations import ENTITY, FILTER, FLOW, OTHER, TOKEN, marks, ok, transfer


@pytest.mark.long
def test_values_stay_with_their_expression_when_a_filter_is_inserted_in_front(
    installation: Installation, client: httpx2.Client
) -> None:
    """The configuration is replaced by a file without uids."""
    body = pipeline(transforms=[FILTER | {"set_values": [TOKEN]}, marks("a")])
    with deployed(client, body) as deployment, reading(deployment.sink) as reader:
        front = {"type": "redis_set_filter", "filter_expr": "root = this.n", "set_values": ["1", "2"]}
        changed = pipeline(transforms=[front, *body["pipeline_config"]["transforms"]])
        saved = ok(client.put(f"{FLOW}/{deployment.id}", json=changed))
        new, kept, script = saved["pipeline_config"]["transforms"]
        assert [kept["uid"], script["uid"]] == [
            t["uid"] for t in deployment.configuration["pipeline_config"]["transforms"]
        ]
        values = f"{FLOW}/{deployment.id}/transforms/{{}}/filter-values"
        assert ok(client.get(values.format(kept["uid"])))["values"] == [TOKEN]
        assert sorted(ok(client.get(values.format(new["uid"])))["values"]) == ["1", "2"]
        ok(client.post(f"{FLOW}/{deployment.id}/deploy"))
        installation.feed("base", ENTITY, [transfer(0), transfer(1, OTHER), transfer(1), transfer(2)])
        assert [record.json()["n"] for record in reader.read(2)] == [1, 2]


@pytest.mark.long
def test_an_unreadable_row_affects_no_other_row(installation: Installation, client: httpx2.Client) -> None:
    if installation.external is not None:
        pytest.skip("the row is damaged in SQLite's file")
    with deployed(client, pipeline(transforms=[marks("healthy")])) as healthy, reading(healthy.sink) as reader:
        sent = pipeline(transforms=[marks("damaged")])
        damaged = client.post(FLOW, json=sent).json()
        path = f"{FLOW}/{damaged['id']}"
        with closing(sqlite3.connect(installation.data_dir / "headwater.db", timeout=20)) as database, database:
            limit_lowered = "config = replace(config, '\"parallelism\":1', '\"parallelism\":1000')"
            database.execute(f"UPDATE flow_revisions SET {limit_lowered} WHERE flow_id = ?", [damaged["id"]])
        shown = ok(client.get(path))
        assert shown["pipeline_config"]["parallelism"] == 1000
        assert "/pipeline_config/parallelism" in shown["unreadable"]
        listed = ok(client.get(FLOW))
        assert healthy.id in {flow["id"] for flow in listed}
        assert [flow["id"] for flow in listed if "unreadable" in flow] == [damaged["id"]]
        assert client.post(f"{path}/deploy").json()["type"] == "urn:headwater:problem:unreadable"
        doctor = installation.run("doctor")
        assert doctor.returncode == 1
        assert damaged["id"] in doctor.stdout
        ok(client.patch(f"{FLOW}/{healthy.id}/transforms/{healthy.uid()}", json=marks("changed")))
        installation.feed("base", ENTITY, [transfer(0)])
        assert reader.read(1)[0].json()["mark"] == "changed"
        assert ok(client.put(path, json=sent))["pipeline_config"] == damaged["pipeline_config"]
        assert ok(client.post(f"{path}/deploy"))["revision"] == 2
        assert client.delete(path).status_code == 200
