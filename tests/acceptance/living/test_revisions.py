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


def count_letters(client: httpx2.Client, deployment: Deployed) -> int:
    return sum(item["count"] for item in ok(client.get(f"{FLOW}/{deployment.id}/dead-letters/summary"))["items"])


def redrive(client: httpx2.Client, deployment: Deployed, count: int) -> None:
    """Redrive all dead letters, and wait until each has become an output."""
    requested = client.post(f"{FLOW}/{deployment.id}/dead-letters/redrive", json={"all": True})
    assert (requested.status_code, requested.json()["requested"]) == (202, count), requested.text
    path = f"{FLOW}/{deployment.id}/redrives/{requested.json()['id']}"
    until(lambda: ok(client.get(path))["state"] == "done", 90, "the end of the redrive")
    assert ok(client.get(path))["delivered"] == count


def marked(reader: Reader) -> dict[int, str]:
    """Return the mark of each record that was read."""
    return {each.json()["n"]: each.json()["mark"] for each in reader.records}


def sources(reader: Reader) -> dict[str, int]:
    """Return the number of the record from each source position, which no two outputs share."""
    found = {each.headers["headwater-src"]: each.json()["n"] for each in reader.records}
    assert len(found) == len(reader.records)
    return found


@pytest.mark.long
def test_a_script_that_fails_after_many_records_is_rolled_back(
    installation: Installation, client: httpx2.Client
) -> None:
    """After a redrive, the outputs equal the outputs of a pipeline that had no bad script."""
    with (
        deployed(client, pipeline(ENTITY, transforms=[marks("good")])) as deployment,
        deployed(client, pipeline(ENTITY, transforms=[marks("good")])) as always_good,
        reading(deployment.sink) as reader,
        reading(always_good.sink) as expected,
    ):
        uid = deployment.uid(0)
        ok(client.patch(f"{FLOW}/{deployment.id}/transforms/{uid}", json={"type": "v8", "script": FAILING}))
        feed(installation, 0, FAILS_FROM)
        reader.read(FAILS_FROM)
        feed(installation, FAILS_FROM, 1_000)
        until(lambda: count_letters(client, deployment) == 1_000, 60, "all letters")
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
        redrive(client, deployment, 1_000)
        reader.read(FAILS_FROM + 2_000)
        expected.read(FAILS_FROM + 2_000)
        assert sources(reader) == sources(expected)
        failing, good = range(FAILS_FROM), range(FAILS_FROM, FAILS_FROM + 2_000)
        assert marked(reader) == dict.fromkeys(failing, "failing") | dict.fromkeys(good, "good")


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
