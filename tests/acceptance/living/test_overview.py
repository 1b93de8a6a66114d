"""A user looks at many pipelines at once, and at the own key and quotas."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conformance.owner import FLOW, SCRIPT, Owner, json, owner
from tests.acceptance.installation import Deployed, Installation, kill, pipeline
from tests.support.waiting import until

OVERVIEW = f"{FLOW}/overview"
WITHIN_S = 90
THROWING = {"type": "v8", "script": "function process(r) { if (r.n === 3) throw new Error('three'); return r; }"}


@pytest.fixture(scope="module")
def viewer(installation: Installation) -> Iterator[Owner]:
    with owner(installation, "viewer") as new_owner:
        yield new_owner


def items(viewer: Owner, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json(viewer.http.get(OVERVIEW, params=query))["items"]
    return found


def item(viewer: Owner, flow: dict[str, Any]) -> dict[str, Any]:
    return next(found for found in items(viewer) if found["id"] == flow["id"])


def deploy(viewer: Owner, flow: dict[str, Any]) -> Deployed:
    return Deployed(flow["id"], flow, json(viewer.http.post(f"{FLOW}/{flow['id']}/deploy")))


@pytest.mark.proves("11/GET /overview")
class TestOverview:
    def test_a_running_pipeline(self, installation: Installation, viewer: Owner) -> None:
        flow = viewer.create(name="running", transforms=[THROWING])
        assert item(viewer, flow)["state"] == "draft"
        deploy(viewer, flow)
        installation.feed("base", "erc20_token_transfer", ({"n": number} for number in range(10)))

        def shows_all() -> bool:
            shown = item(viewer, flow)
            sums = [sum(shown[name] or [0]) for name in ("messages_received", "messages_sent", "errors")]
            return sums == [10, 9, 1] and shown["lag"] == 0

        until(shows_all, WITHIN_S, "the counts of 10 records")
        shown = item(viewer, flow)
        assert (shown["state"], shown["condition"], shown["revision"]) == ("deployed", shown["condition"], 1)
        assert {len(shown[name]) for name in ("messages_received", "messages_sent", "errors")} == {60}
        summary = json(viewer.http.get(f"{FLOW}/{flow['id']}/deploy/metrics", params={"aggregated": True}))
        assert shown["avg_data_age_ms"] == pytest.approx(summary["avg_data_age_ms"], rel=0.01)

    def test_a_worker_in_a_crash_loop_is_failing(self, installation: Installation, viewer: Owner) -> None:
        flow = viewer.create(name="crashing", transforms=[])
        deployment = deploy(viewer, flow)

        def is_failing() -> bool:
            kill(installation.workers_of(deployment))
            return bool(item(viewer, flow)["state"] == "failing")

        until(is_failing, WITHIN_S, "the state failing")
        assert flow["id"] in [found["id"] for found in items(viewer, state="failing")]

    def test_pages_and_filters(self, installation: Installation, viewer: Owner) -> None:
        bodies = [
            pipeline(name=f"listed {number}", transforms=[SCRIPT]) | {"tags": ["listed", f"tag {number % 2}"]}
            for number in range(5)
        ]
        created = [json(viewer.http.post(FLOW, json=body), 201)["id"] for body in bodies]
        found: list[str] = []
        cursor = None
        while True:
            body = json(viewer.http.get(OVERVIEW, params={"tag": "listed", "limit": 2, "cursor": cursor or "null"}))
            found += [one["id"] for one in body["items"]]
            cursor = body["cursor"]
            if cursor is None:
                break
        assert found == created[::-1]
        assert [one["id"] for one in items(viewer, q="LISTED 3")] == [created[3]]
        assert [one["id"] for one in items(viewer, q=created[2])] == [created[2]]
        assert [one["id"] for one in items(viewer, tag="tag 1", state="draft")] == [created[3], created[1]]
        assert items(viewer, tag="tag 1", state="paused") == []


@pytest.mark.proves("11/GET /me")
def test_the_own_key(installation: Installation) -> None:
    result = installation.run("keys", "create", "--owner", "me", "--scope", "flow:read", "--scope", "sets:write")
    key = result.stdout.strip()
    with installation.client(key) as http:
        assert json(http.get(f"{FLOW}/me")) == {
            "owner": "me",
            "key_id": key.removeprefix("hw_live_").partition("_")[0],
            "scopes": ["flow:read", "sets:write"],
            "expires_at": None,
        }


@pytest.mark.proves("11/GET /limits")
def test_the_own_quotas(installation: Installation, viewer: Owner) -> None:
    def quotas() -> dict[str, dict[str, Any]]:
        return {quota["name"]: quota for quota in json(viewer.http.get(f"{FLOW}/limits"))["limits"]}

    before = quotas()
    viewer.create(name="counted")
    after = quotas()
    assert after["configurations"]["used"] == before["configurations"]["used"] + 1
    assert after["configurations"]["allowed"] is None
    assert set(after) == {
        "configurations",
        "stored_bytes",
        "script_bytes",
        "deployments",
        "workers",
        "datasets",
        "set_values",
    }
