"""The number of workers follows the load, and no change of it loses or repeats a record."""

import threading
import time
from collections import Counter
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Deployed, Installation, deployed, in_background, pipeline, reading
from tests.acceptance.test_redeploy import FLOW, ok
from tests.support.waiting import until

ENTITY = "misc_event"
CHAIN = "hyperliquid"
SLOW = """
function process(r) {
  let x = r.n;
  for (let i = 0; i < 20_000; i++) x = (x * 69069 + 1) % 4294967296;
  return { n: r.n, x };
}"""
"""A script with which one worker processes about a thousand records per second."""
BACKLOG = 12_000
MODES = ["at_least_once", "exactly_once"]


def elastic(delivery: str = "at_least_once", **bounds: int) -> dict[str, Any]:
    scripts = [{"type": "v8", "script": SLOW}]
    return pipeline(ENTITY, CHAIN, transforms=scripts, parallelism=bounds, delivery=delivery)


def scaling(client: httpx2.Client, deployment: Deployed) -> dict[str, Any]:
    shown: dict[str, Any] = ok(client.get(f"{FLOW}/{deployment.id}/deploy"))["scaling"]
    return shown


def is_stable(client: httpx2.Client, deployment: Deployed) -> bool:
    return bool(ok(client.get(f"{FLOW}/{deployment.id}/deploy"))["condition"] == "Stable")


def stats(client: httpx2.Client, deployment: Deployed) -> dict[str, Any]:
    shown: dict[str, Any] = ok(client.get(f"{FLOW}/{deployment.id}/deploy/stats"))
    return shown


def healthy(client: httpx2.Client, deployment: Deployed) -> int:
    return int(stats(client, deployment)["workers_health"]["healthy_workers"])


class Feeder:
    """Feeds records, and counts them.

    Attributes:
        keeps_backlog: Whether many records always wait, so that the workers are behind. Otherwise few are fed.
    """

    def __init__(self, installation: Installation, client: httpx2.Client, deployment: Deployed) -> None:
        self._installation = installation
        self._client = client
        self._deployment = deployment
        self.keeps_backlog = True
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        """Feed until `stop` is set."""
        while not stop.wait(0.2):
            if not self.keeps_backlog:
                self._feed(10)
            elif (stats(self._client, self._deployment)["lag"] or 0) < BACKLOG:
                self._feed(1_000)

    def _feed(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        records = ({"n": n, "transaction_hash": f"0x{n:064x}", "log_index": 0} for n in numbers)
        self._installation.feed(CHAIN, ENTITY, records)
        self.count = numbers.stop


@pytest.mark.long
@pytest.mark.parametrize("delivery", MODES)
@pytest.mark.proves("12/bounds", "12/the-number", "12/a-change-of-the-number", "12/the-present-number")
def test_more_workers_under_load(installation: Installation, client: httpx2.Client, delivery: str) -> None:
    with (
        deployed(client, elastic(delivery, min=1, max=2)) as deployment,
        reading(deployment.sink) as reader,
    ):
        assert deployment.deploy_response["workers"] == 1
        assert deployment.deploy_response["scaling"] == {
            "min": 1,
            "max": 2,
            "workers": 1,
            "reason": "",
            "changed_at": None,
        }
        [first] = installation.workers_of(deployment)
        until(lambda: is_stable(client, deployment), 60, "a stable revision")
        fed = Feeder(installation, client, deployment)
        with in_background(fed):
            until(lambda: scaling(client, deployment)["workers"] == 2, 60, "a second worker")
            fed.keeps_backlog = False
            until(lambda: healthy(client, deployment) == 2, what="two ready workers")
        assert first in installation.workers_of(deployment), "the worker that stays runs on"
        shown = scaling(client, deployment)
        assert "1 worker" in shown["reason"]
        assert shown["changed_at"] is not None
        assert stats(client, deployment)["scaling"] == shown
        reader.read(fed.count, within_s=120)
        assert Counter(each.json()["n"] for each in reader.records) == Counter(range(fed.count))


@pytest.mark.slow
@pytest.mark.proves("12/the-number", "12/a-change-of-the-number", "12/a-pause")
def test_fewer_workers_when_the_load_has_ended(installation: Installation, client: httpx2.Client) -> None:
    with (
        deployed(client, elastic(min=1, max=2)) as deployment,
        reading(deployment.sink) as reader,
    ):
        until(lambda: is_stable(client, deployment), 60, "a stable revision")
        fed = Feeder(installation, client, deployment)
        with in_background(fed):
            until(lambda: scaling(client, deployment)["workers"] == 2, 60, "a second worker")
            fed.keeps_backlog = False
            ok(client.post(f"{FLOW}/{deployment.id}/pause"))
            assert scaling(client, deployment)["workers"] == 2
            assert ok(client.post(f"{FLOW}/{deployment.id}/resume"))["workers"] == 2
            before = set(installation.workers_of(deployment))
            until(lambda: scaling(client, deployment)["workers"] == 1, 300, "one worker")
            until(lambda: len(installation.workers_of(deployment)) == 1, what="the end of the other worker")
            assert set(installation.workers_of(deployment)) < before, "the worker that stays runs on"
            until(lambda: healthy(client, deployment) == 1, what="a ready worker")
            time.sleep(5)
        reader.read(fed.count, within_s=120)
        assert Counter(each.json()["n"] for each in reader.records) == Counter(range(fed.count))


@pytest.mark.proves("12/bounds")
def test_invalid_bounds(client: httpx2.Client) -> None:
    response = client.post(FLOW, json=elastic(min=3, max=2))
    assert response.status_code == 422
    assert "lower min (3) or raise max (2)" in response.json()["detail"]
