"""A change that was wrong is found in the history and rolled back."""

from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Deployed, Installation, Reader, deployed, pipeline, reading
from tests.acceptance.test_redeploy import FILTER, FLOW, marks, ok
from tests.support.waiting import until

ENTITY = "erc721_token_transfer"
FAILS_FROM = 10_000
FAILING = f"""function process(record) {{
  if (record.n >= {FAILS_FROM}) throw new Error("too many");
  return {{n: record.n, mark: "failing"}};
}}"""


def feed(installation: Installation, first: int, count: int, kind: str = "good") -> None:
    records = (
        {"n": n, "kind": kind, "transaction_hash": f"0x{n:064x}", "log_index": 0} for n in range(first, first + count)
    )
    installation.feed("base", ENTITY, records)


def revisions(client: httpx2.Client, deployment: Deployed) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = ok(client.get(f"{FLOW}/{deployment.id}/revisions"))["items"]
    return items


def roll_back(client: httpx2.Client, deployment: Deployed, revision: int = 1) -> Any:
    return ok(client.post(f"{FLOW}/{deployment.id}/rollback", json={"revision": revision}))


def marked(reader: Reader) -> dict[int, str]:
    """Return the mark of each record that was read."""
    return {each.json()["n"]: each.json()["mark"] for each in reader.records}


@pytest.mark.long
def test_a_script_that_fails_after_many_records_is_rolled_back(
    installation: Installation, client: httpx2.Client
) -> None:
    with (
        deployed(client, pipeline(ENTITY, transforms=[marks("good")])) as deployment,
        reading(deployment.sink) as reader,
    ):
        uid = deployment.uid(0)
        ok(client.patch(f"{FLOW}/{deployment.id}/transforms/{uid}", json={"type": "v8", "script": FAILING}))
        feed(installation, 0, FAILS_FROM)
        reader.read(FAILS_FROM)
        feed(installation, FAILS_FROM, 1_000)
        with reading(deployment.sink, deployment.deploy_response["dead_letter"]["topic"]) as letters:
            until(lambda: letters.poll() is not None and len(letters.records) >= 1_000)
        [second, first] = revisions(client, deployment)
        assert (second["revision"], second["changed"]) == (2, ["transforms"])
        assert (first["revision"], first["changed"]) == (1, [])
        assert None not in (first["deployed_at"], second["deployed_at"], second["condition"])
        found = ok(client.get(f"{FLOW}/{deployment.id}/revisions/2/diff"))
        assert '+  if (record.n >= 10000) throw new Error("too many");' in found["scripts"][uid]

        answer = roll_back(client, deployment)
        assert (answer["status"], answer["revision"]) == ("deployed", 3)
        assert answer["sinks"] == deployment.deploy_response["sinks"]
        feed(installation, FAILS_FROM + 1_000, 1_000)
        reader.read(FAILS_FROM + 1_000)
        marks_read = marked(reader)
        assert {n for n, mark in marks_read.items() if mark == "failing"} == set(range(FAILS_FROM))
        assert {n for n, mark in marks_read.items() if mark == "good"} == set(
            range(FAILS_FROM + 1_000, FAILS_FROM + 2_000)
        )


def test_a_filter_comes_back_with_its_values_while_paused(installation: Installation, client: httpx2.Client) -> None:
    with (
        deployed(client, pipeline(ENTITY, transforms=[FILTER, marks("filtered")])) as deployment,
        reading(deployment.sink) as reader,
    ):
        path = f"{FLOW}/{deployment.id}"
        original = ok(client.get(path))
        ok(client.put(f"{path}/transforms", json=[marks("all") | {"uid": deployment.uid(1)}]))
        ok(client.post(f"{path}/pause"))
        saved = roll_back(client, deployment)
        assert (saved["revision"], saved["pipeline_config"]) == (3, original["pipeline_config"])
        assert ok(client.get(f"{path}/deploy"))["status"] == "paused"
        feed(installation, 0, 10, "bad")
        feed(installation, 10, 10)
        ok(client.post(f"{path}/resume"))
        reader.read(10)
        assert marked(reader) == dict.fromkeys(range(10, 20), "filtered")
        assert ok(client.get(f"{deployment.filter_url()}/check", params={"value": "good"}))["is_member"]
