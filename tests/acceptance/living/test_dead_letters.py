"""A user sees dead letters, fixes the script, and redrives them."""

from collections import Counter
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Deployed, Installation, deployed, pipeline, reading
from tests.support.waiting import until

BROKEN = """function process(record) {
  if (record.n % 10 === 3) throw new RangeError('n is ' + record.n);
  return record;
}"""
FIXED = "function process(record) { return record.n % 100 === 3 ? null : record; }"


@pytest.fixture
def http(installation: Installation) -> Any:
    with installation.client() as client:
        yield client


def script(text: str) -> list[dict[str, Any]]:
    return [{"type": "v8", "script": text}]


def letters(http: httpx2.Client, flow: Deployed, **query: Any) -> dict[str, Any]:
    response = http.get(f"/api/v1/flow/{flow.id}/dead-letters", params=query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def all_letters(http: httpx2.Client, flow: Deployed, **query: Any) -> list[dict[str, Any]]:
    items, cursor = [], None
    while True:
        page = letters(http, flow, **query, **({} if cursor is None else {"cursor": cursor}))
        items += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return items


def summary(http: httpx2.Client, flow: Deployed) -> list[dict[str, Any]]:
    response = http.get(f"/api/v1/flow/{flow.id}/dead-letters/summary")
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


def redrive(http: httpx2.Client, flow: Deployed, **body: Any) -> dict[str, Any]:
    """Redrive letters, and return the state at the end."""
    response = http.post(f"/api/v1/flow/{flow.id}/dead-letters/redrive", json=body)
    assert response.status_code == 202, response.text
    path = f"/api/v1/flow/{flow.id}/redrives/{response.json()['id']}"
    until(lambda: http.get(path).json()["state"] == "done", 90, "the end of the redrive")
    state: dict[str, Any] = http.get(path).json()
    assert state["requested"] == response.json()["requested"]
    return {"id": response.json()["id"], **state}


def records(count: int) -> list[dict[str, Any]]:
    return [{"n": number, "amount": 12345678901234567890 + number} for number in range(count)]


@pytest.mark.parametrize("delivery", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)])
@pytest.mark.proves(
    "11/GET /{config_id}/dead-letters",
    "11/GET /{config_id}/dead-letters/summary",
    "11/POST /{config_id}/dead-letters/redrive",
    "11/GET /{config_id}/redrives/{redrive_id}",
)
def test_letters_are_listed_counted_and_redriven(
    installation: Installation, http: httpx2.Client, delivery: str
) -> None:
    body = pipeline("log", "base", transforms=script(BROKEN), delivery=delivery, name=f"letters {delivery}")
    with deployed(http, body) as flow:
        installation.feed("base", "log", records(200))
        until(lambda: [item["count"] for item in summary(http, flow)] == [20], 60, "twenty letters")
        # A transaction becomes readable shortly after its commit, which counts its letters.
        until(lambda: summary(http, flow)[0]["example"], 60, "the example")
        (counted,) = summary(http, flow)
        assert (counted["error"], counted["transform_uid"], counted["line"]) == ("RangeError", flow.uid(), 2)

        items = all_letters(http, flow, limit=7)
        assert sorted(item["record"]["n"] for item in items) == list(range(3, 200, 10))
        assert items[0]["id"] == counted["example"]
        assert letters(http, flow, limit=20)["items"] == items
        by_number = {item["record"]["n"]: item for item in items}
        assert by_number[13]["message"] == "n is 13"
        assert by_number[13]["record"]["amount"] == 12345678901234567890 + 13
        assert [item["redriven"] for item in items] == [None] * 20
        assert letters(http, flow, error="TypeError") == {"items": [], "cursor": None}
        assert len(letters(http, flow, error="RangeError", transform=flow.uid())["items"]) == 20

        again = redrive(http, flow, ids=[by_number[13]["id"]])
        assert {name: again[name] for name in ("requested", "delivered", "dropped", "failed")} == {
            "requested": 1,
            "delivered": 0,
            "dropped": 0,
            "failed": 1,
        }
        until(lambda: len(all_letters(http, flow)) == 21, 30, "the letter of the redrive")
        assert [item["source"] for item in all_letters(http, flow)].count(by_number[13]["source"]) == 2

        changed = http.patch(f"/api/v1/flow/{flow.id}/transforms/{flow.uid()}", json={"type": "v8", "script": FIXED})
        assert changed.status_code == 200, changed.text
        dry = http.post(f"/api/v1/flow/{flow.id}/dead-letters/redrive", json={"error": "RangeError", "dry_run": True})
        assert (dry.status_code, dry.json()) == (200, {"requested": 20})
        ended = redrive(http, flow, all=True)
        assert {name: ended[name] for name in ("requested", "delivered", "dropped", "failed")} == {
            "requested": 20,
            "delivered": 18,
            "dropped": 2,
            "failed": 0,
        }
        with reading(flow.sink) as reader:
            reader.read(198)
            redriven = [record for record in reader.records if "headwater-redriven" in record.headers]
            assert Counter(record.headers["headwater-redriven"] for record in redriven) == {ended["id"]: 18}
            sources = {record.json()["n"]: record.headers["headwater-src"] for record in redriven}
            assert sources == {n: by_number[n]["source"] for n in by_number if n % 100 != 3}
            assert len(reader.records) == 198
        outcomes = Counter(item["redriven"]["outcome"] for item in all_letters(http, flow))
        assert outcomes == {"delivered": 18, "dropped": 2, "failed": 1}
        assert redrive(http, flow, all=True)["requested"] == 0
        metrics = http.get(f"/api/v1/flow/{flow.id}/deploy/metrics?metrics=messages_received").json()
        assert sum(point["value"] for point in metrics["metrics"][0]["points"]) == 200


@pytest.mark.proves("11/a-configuration-that-is-not-deployed")
def test_states_that_allow_no_redrive(http: httpx2.Client) -> None:
    created = http.post("/api/v1/flow", json=pipeline("log", "base", name="draft")).json()
    path = f"/api/v1/flow/{created['id']}"
    response = http.post(f"{path}/dead-letters/redrive", json={"all": True})
    assert response.status_code == 409
    assert "draft" in response.json()["detail"]
    assert http.get(f"{path}/dead-letters").status_code == 404
    assert http.get(f"{path}/dead-letters/summary").status_code == 404
    assert http.get(f"{path}/redrives/unknown").status_code == 404
    assert http.delete(path).status_code == 200


def test_letters_of_a_paused_pipeline(installation: Installation, http: httpx2.Client) -> None:
    with deployed(http, pipeline("log", "base", transforms=script(BROKEN), name="paused letters")) as flow:
        installation.feed("base", "log", records(40))
        until(lambda: [item["count"] for item in summary(http, flow)] == [4], 60, "four letters")
        path = f"/api/v1/flow/{flow.id}"
        assert http.post(f"{path}/pause").status_code == 200
        assert len(letters(http, flow)["items"]) == summary(http, flow)[0]["count"] == 4
        refused = http.post(f"{path}/dead-letters/redrive", json={"all": True})
        assert refused.status_code == 409
        assert "paused" in refused.json()["detail"]
        assert http.post(f"{path}/resume").status_code == 200
        assert redrive(http, flow, all=True)["failed"] == 4


@pytest.mark.proves("11/GET /{config_id}/redrives/{redrive_id}")
def test_a_teardown_stops_a_redrive(installation: Installation, http: httpx2.Client) -> None:
    slow = "function process(record) { if (!record.fixed) throw new Error('x'); return record; }"
    with deployed(http, pipeline("log", "base", transforms=script(slow), name="stopped")) as flow:
        installation.feed("base", "log", records(20))
        until(lambda: [item["count"] for item in summary(http, flow)] == [20], 60, "twenty letters")
        accepted = http.post(f"/api/v1/flow/{flow.id}/dead-letters/redrive", json={"all": True}).json()
        assert http.post(f"/api/v1/flow/{flow.id}/teardown").status_code == 200
        path = f"/api/v1/flow/{flow.id}/redrives/{accepted['id']}"
        until(lambda: http.get(path).json()["state"] in ("stopped", "done"), 30, "the end of the redrive")
