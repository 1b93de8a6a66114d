"""No letter of a redrive is lost, whatever is killed meanwhile."""

import random
import threading
from collections import Counter
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, deployed, in_background, kill, pipeline, reading
from tests.support.waiting import until

LETTERS = 100_000
FAILS = "function process(record) { throw new Error('not yet'); }"
FIXED = "function process(record) { return record; }"
KILLED = ("headwater.app.worker_main", "headwater api", "headwater controller")
"""Parts of the command lines of the processes that are killed: workers (of the redrive, too), APIs, the controller."""


def kill_sometimes(installation: Installation, stop: threading.Event) -> None:
    """Kill a random worker, API or controller every few seconds.

    The installation starts it again.
    """
    rng = random.Random(7)
    while not stop.wait(rng.uniform(1.0, 4.0)):
        running = installation.processes(rng.choice(KILLED))
        kill(rng.sample(running, min(1, len(running))))


def count_letters(client: httpx2.Client, path: str) -> int:
    items = client.get(f"{path}/dead-letters/summary").json()["items"]
    return sum(item["count"] for item in items)


def is_stable(client: httpx2.Client, path: str) -> bool:
    return bool(client.get(f"{path}/deploy").json()["condition"] == "Stable")


def state(client: httpx2.Client, path: str) -> dict[str, Any]:
    """Return the state of a redrive; nothing while the API restarts."""
    try:
        response = client.get(path)
    except httpx2.TransportError:
        return {}
    body: dict[str, Any] = response.json() if response.status_code == 200 else {}
    return body


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@pytest.mark.proves("11/a-redrive-that-was-killed")
def test_a_redrive_under_kills(own_installation: Installation) -> None:
    own_installation.start()
    body = pipeline("log", "base", transforms=[{"type": "v8", "script": FAILS}], name="redriven")
    with own_installation.client() as client, deployed(client, body) as flow:
        path = f"/api/v1/flow/{flow.id}"
        own_installation.feed("base", "log", ({"n": number} for number in range(LETTERS)))
        until(lambda: count_letters(client, path) == LETTERS, 300, "all letters")
        changed = client.patch(f"{path}/transforms/{flow.uid()}", json={"type": "v8", "script": FIXED})
        assert changed.status_code == 200, changed.text
        until(lambda: is_stable(client, path), 120, "a revision that kills of its workers do not roll back")
        accepted = client.post(f"{path}/dead-letters/redrive", json={"all": True}).json()
        assert accepted["requested"] == LETTERS
        redrive = f"{path}/redrives/{accepted['id']}"
        with in_background(lambda stop: kill_sometimes(own_installation, stop)):
            until(lambda: state(client, redrive).get("state") == "done", 900, "the end of the redrive")
        until(lambda: bool(state(client, redrive)), 60, "the API")
        counts = {"requested": LETTERS, "delivered": LETTERS, "dropped": 0, "failed": 0}
        assert state(client, redrive) == {"state": "done", **counts}
        with reading(flow.sink) as reader:
            records = reader.read(LETTERS, within_s=120)
            assert sorted(record.json()["n"] for record in records) == list(range(LETTERS))
            redriven = Counter(record.headers.get("headwater-redriven") for record in reader.records)
            assert redriven.keys() == {accepted["id"]}
            by_source = {record.headers["headwater-src"]: record.value for record in reader.records}
            assert all(by_source[record.headers["headwater-src"]] == record.value for record in reader.records)
        assert client.post(f"{path}/dead-letters/redrive", json={"all": True, "dry_run": True}).json() == {
            "requested": 0
        }
