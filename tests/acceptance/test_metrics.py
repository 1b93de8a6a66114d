"""What a pipeline tells of itself: exact, whatever is killed, and in the words of Prometheus too."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.acceptance.stack import Deployed, Stack, beside, deploy, deployed, kill, pipeline
from tests.support.ports import free_port
from tests.support.processes import suspended
from tests.support.waiting import until

SCRIPT = """
function process(record) {
  if (record.n % 10 === 7) throw new Error("no sevens");
  return record.n % 2 ? null : [record, record, record];
}"""
PER_FEED = 100


def sums(client: httpx2.Client, made: Deployed) -> dict[str, float]:
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
        pytest.param(3, marks=pytest.mark.slow),
        pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_counts_are_exact_after_kills_at_any_moment(stack: Stack, client: httpx2.Client, kills: int) -> None:
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
        # Workers that die again and again are started again later and later.
        until(lambda: received() >= feed.count, within_s=300, what="the counts of all records")
        found = sums(client, made)
    assert found["messages_received"] == feed.count
    assert found["messages_sent"] == 3 * feed.count / 2
    assert found["processor_error"] == feed.count / 10


@pytest.mark.slow
def test_lag_and_series_of_single_pipelines(own_stack: Stack) -> None:
    """On a port of their own; a pipeline that stands still shows what it has not read."""
    port = free_port()
    own_stack.flags = ("--metrics-port", str(port))
    own_stack.start()
    with own_stack.client() as client:
        made = deploy(client, pipeline("log"))

        def lag() -> Any:
            return client.get(f"/api/v1/flow/{made.id}/deploy/stats").json()["lag"]

        own_stack.feed("base", "log", ({"n": n} for n in range(50)))
        until(lambda: "50.0" in series(port, made.id, "messages_received_total"), what="the counter")
        until(lambda: lag() == 0, what="the end of the stream")
        assert client.get(f"/api/v1/flow/{made.id}/deploy/stats").json()["last_progress_at"] is not None
        with suspended(own_stack.workers()):
            own_stack.feed("base", "log", ({"n": n} for n in range(7)))
            assert lag() == 7
            assert "7.0" in series(port, made.id, "lag")
        until(lambda: lag() == 0, what="the end of the lag")
        own_stack.stop()


def series(port: int, config_id: str, name: str) -> str:
    """The line of a series of one pipeline; empty while there is none."""
    lines = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text.splitlines()
    found = [line for line in lines if line.startswith(f"headwater_pipeline_{name}{{") and config_id in line]
    return found[0] if found else ""
