"""The metrics of single transforms are exact, also when workers are killed."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Deployed, Installation, deployed, in_background, kill, pipeline
from tests.support.waiting import until

PER_FEED = 100
SCRIPT = """
function process(record) {
  if (record.n % 10 === 7) throw new Error("no sevens");
  return record.n % 2 ? null : [record, record, record];
}"""
LAST = "function process(record) { return record; }"
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.kind", "set_values": ["wanted"]}


def sums(client: httpx2.Client, deployment: Deployed) -> dict[tuple[str, str], int]:
    """Return the counts of the last hour, by the uid of the transform and the metric type."""
    path, query = f"/api/v1/flow/{deployment.id}/deploy/metrics", {"by": "transform"}
    series = client.get(path, params=query).json()["metrics"]
    return {
        (one["transform_uid"], one["metric_type"]): sum(point["value"] for point in one["points"])
        for one in series
        if one["metric_type"] != "processing_latency"
    }


class Feed:
    """Feeds numbered records, of which every fifth is not wanted, until it is stopped."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(0.02):
            self.feed()

    def feed(self) -> None:
        self._installation.feed("base", "erc1155_token_transfer", self._some())

    def _some(self) -> Iterator[dict[str, Any]]:
        for _ in range(PER_FEED):
            n = self.count
            kind = "other" if n % 5 == 4 else "wanted"
            yield {"n": n, "kind": kind, "transaction_hash": f"0x{n:064x}", "log_index": 0}
            self.count += 1


def expected(deployment: Deployed, fed: int) -> dict[tuple[str, str], int]:
    """Return what the three transforms count for `fed` records, a multiple of 10."""
    wanted = [n for n in range(10) if n % 5 != 4]
    errors = [n for n in wanted if n == 7]
    kept = [n for n in wanted if n % 2 == 0]
    of_ten = {
        (deployment.uid(0), "received"): 10,
        (deployment.uid(0), "sent"): len(wanted),
        (deployment.uid(0), "dropped"): 10 - len(wanted),
        (deployment.uid(0), "errors"): 0,
        (deployment.uid(1), "received"): len(wanted),
        (deployment.uid(1), "sent"): 3 * len(kept),
        (deployment.uid(1), "dropped"): len(wanted) - len(kept) - len(errors),
        (deployment.uid(1), "errors"): len(errors),
        (deployment.uid(2), "received"): 3 * len(kept),
        (deployment.uid(2), "sent"): 3 * len(kept),
        (deployment.uid(2), "dropped"): 0,
        (deployment.uid(2), "errors"): 0,
    }
    return {key: count * fed // 10 for key, count in of_ten.items()}


@pytest.mark.parametrize("kills", [0, pytest.param(5, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
@pytest.mark.proves("11/GET /{config_id}/deploy/metrics (by=transform)")
def test_counts_are_exact_after_kills_at_random_times(
    installation: Installation, client: httpx2.Client, kills: int
) -> None:
    draw, feed = random.Random(kills), Feed(installation)
    scripts = [{"type": "v8", "script": SCRIPT}, {"type": "v8", "script": LAST}]
    body = pipeline("erc1155_token_transfer", transforms=[FILTER, *scripts], parallelism=2)
    with deployed(client, body) as deployment:
        first = (deployment.uid(0), "received")

        def received() -> int:
            return sums(client, deployment).get(first, 0)

        feed.feed()
        with in_background(feed):
            for _ in range(kills):
                more = received() + draw.randint(1, 20 * PER_FEED)
                until(lambda more=more: received() >= more, what="progress after a kill")  # type: ignore[misc]
                kill(installation.workers_of(deployment))
        # Workers that die repeatedly are restarted with growing delays.
        until(lambda: received() >= feed.count, within_s=300, what="the counts of all records")
        assert sums(client, deployment) == expected(deployment, feed.count)
        series = client.get(f"/api/v1/flow/{deployment.id}/deploy/metrics", params={"by": "transform"}).json()
        latencies = [one["points"] for one in series["metrics"] if one["metric_type"] == "processing_latency"]
        assert len(latencies) == 3
        assert all(latencies)
