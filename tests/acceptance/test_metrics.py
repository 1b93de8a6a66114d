"""What a pipeline tells of itself stays exact, whatever is killed."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.acceptance.stack import Deployed, Stack, beside, deployed, kill, pipeline, until

SCRIPT = """
function process(record) {
  if (record.n % 10 === 7) throw new Error("no sevens");
  return record.n % 2 ? null : [record, record, record];
}"""
PER_FEED = 100


def sums(client: httpx.Client, made: Deployed) -> dict[str, float]:
    """The counts of the last hour."""
    body = client.get(f"/api/v1/flow/{made.id}/deploy/metrics").json()
    return {one["metric_type"]: sum(point["value"] for point in one["points"]) for one in body["metrics"]}


class Feed:
    """Numbered records, as long as it is told."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.count = 0

    def __call__(self, stop: threading.Event) -> None:
        while not stop.wait(0.02):
            self._stack.feed("base", "erc721_token_transfer", self._some())

    def _some(self) -> Iterator[dict[str, Any]]:
        for _ in range(PER_FEED):
            yield {"n": self.count, "transaction_hash": f"0x{self.count:064x}", "log_index": 0}
            self.count += 1


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, marks=pytest.mark.long),
        pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_counts_are_exact_after_kills_at_any_moment(stack: Stack, client: httpx.Client, kills: int) -> None:
    draw, feed = random.Random(kills), Feed(stack)
    body = pipeline("erc721_token_transfer", transforms=[{"type": "v8", "script": SCRIPT}], parallelism=2)
    with deployed(client, body) as made:

        def received() -> float:
            return sums(client, made)["messages_received"]

        with beside(feed):
            for _ in range(kills):
                more = received() + draw.randint(1, 20 * PER_FEED)
                until(lambda more=more: received() >= more, what="progress after a kill")  # type: ignore[misc]
                kill(stack.workers_of(made))
        until(lambda: received() >= feed.count, what="the counts of all records")
        found = sums(client, made)
    assert found["messages_received"] == feed.count
    assert found["messages_sent"] == 3 * feed.count / 2
    assert found["processor_error"] == feed.count / 10
