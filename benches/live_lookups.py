"""Measures lookups of four workers, 50,000 records per second, while their set grows.

`python -m benches.live_lookups` runs it.

In a complete installation, records come from Kafka, and values are added over HTTP by five concurrent requests of
250,000 values each. Every output is checked: a record passes if a completed request had added its value before the
record was written; a record whose value is never added does not pass. The references of the same run are the same
lookups while nothing is added, before and after.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Any

import httpx2
import typer
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from benches._installation import running_installation
from benches._workload import address
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST
from tests.acceptance.installation import Deployed, Installation, Reader, deployed, pipeline, reading
from tests.support.ports import free_port
from tests.support.waiting import until

WORKERS = 4
RATE = 50_000
SLICE_S = 0.05
MEMBER_EVERY = 100
UPLOADS = 5
QUIET_S = 15.0
ENTITY = "erc20_token_transfer"
HISTOGRAM = "headwater_pipeline_lookup_latency_seconds"


def feed(config: dict[str, Any], sent: "Synchronized[int]", fed: "Synchronized[int]", stop: Event) -> None:
    """Write records at a steady rate.

    Every MEMBER_EVERY-th record has a value that a completed request has added.

    `sent` is the number of values that are known to be in the set; `fed` counts the records with such a value.
    """
    producer = Producer({**config, "linger.ms": 5, "compression.type": "lz4", "log_level": 0})
    due, number = time.monotonic(), 0
    while not stop.is_set():
        added = sent.value
        for _ in range(int(RATE * SLICE_S)):
            is_member = number % MEMBER_EVERY == 0 and added > 0
            to_address = address(number * 7919 % added) if is_member else address(10**12 + number)
            record = b'{"n":%d,"member":%d,"to_address":"%s"}' % (number, is_member, to_address.encode())
            while True:
                try:
                    producer.produce(f"stream.base.{ENTITY}", record, b"%d" % number)
                    break
                except BufferError:  # the machine is slower than RATE; the printed rate shows it
                    producer.poll(0.05)
            number += 1
            fed.value += is_member
        producer.poll(0)
        due += SLICE_S
        time.sleep(max(0.0, due - time.monotonic()))
    assert producer.flush(60) == 0


def upload(client: httpx2.Client, url: str, values: int, sent: "Synchronized[int]") -> None:
    """Add all values.

    `sent` is set to the number of leading values whose requests have completed.
    """
    done: set[int] = set()

    def post(first: int) -> None:
        body = json.dumps({"values": [address(number) for number in range(first, first + MAX_VALUES_PER_REQUEST)]})
        response = client.post(url, content=body, headers={"Content-Type": "application/json"}, timeout=300)
        assert response.json()["added"] == MAX_VALUES_PER_REQUEST, response.text
        done.add(first)
        while sent.value in done:
            sent.value += MAX_VALUES_PER_REQUEST

    with ThreadPoolExecutor(UPLOADS) as pool:
        list(pool.map(post, range(0, values, MAX_VALUES_PER_REQUEST)))
    assert sent.value == values


class Latencies:
    """Reads the workers' histogram of lookup batches from the metrics port."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._before = self._buckets()

    def _buckets(self) -> dict[float, float]:
        buckets: dict[float, float] = {}
        for family in text_string_to_metric_families(httpx2.get(self._url).text):
            for sample in family.samples:
                if sample.name == f"{HISTOGRAM}_bucket":
                    bound = float(sample.labels["le"])
                    buckets[bound] = buckets.get(bound, 0) + sample.value
        return buckets

    def since(self) -> str:
        """Return a line with the median and the p99 of the batches since the last call."""
        now = self._buckets()
        counts = {bound: value - self._before.get(bound, 0) for bound, value in sorted(now.items())}
        self._before = now
        return f"{max(counts.values()):,.0f} lookup batches: p50 {quantile(counts, 0.5)}  p99 {quantile(counts, 0.99)}"


def quantile(counts: dict[float, float], share: float) -> str:
    """Format a quantile and the bounds of its bucket.

    The quantile is computed as Prometheus does, linearly within the bucket.

    `counts` has the cumulative count for each upper bound, in seconds.
    """
    rank, lower, below = share * max(counts.values()), 0.0, 0.0
    for bound, count in counts.items():
        if count >= rank:
            within = (rank - below) / (count - below)
            return f"{1e3 * (lower + within * (bound - lower)):.1f} ms ({1e3 * lower:.1f} to {1e3 * bound:.1f})"
        lower, below = bound, count
    raise AssertionError("no batches")


@contextmanager
def feeding(installation: Installation, sent: "Synchronized[int]", fed: "Synchronized[int]") -> Iterator[None]:
    context = get_context("spawn")
    stop = context.Event()
    feeder = context.Process(target=feed, args=(installation.admin_config(), sent, fed, stop))
    feeder.start()
    yield
    stop.set()
    feeder.join()
    assert feeder.exitcode == 0


def received(client: httpx2.Client, deployment: Deployed) -> int:
    """Return how many records the workers have read in the last hour, from the API's metrics."""
    response = client.get(
        f"/api/v1/flow/{deployment.id}/deploy/metrics", params={"metrics": "messages_received"}
    ).json()
    return int(sum(point["value"] for point in response["metrics"][0]["points"]))


def check(reader: Reader, members: int) -> None:
    """Assert that exactly the records with a member's value were output, each once."""
    found = [record.json() for record in reader.read(members, 120)]
    assert all(record["member"] for record in found)
    assert len({record["n"] for record in found}) == len(found) == members


def measure_while(name: str, client: httpx2.Client, deployment: Deployed, latencies: Latencies, work: Any) -> None:
    """Print the workers' rate and latencies while `work` runs."""
    before, started = received(client, deployment), time.monotonic()
    work()
    rate = (received(client, deployment) - before) / (time.monotonic() - started)
    typer.echo(f"{name}: {rate:,.0f} records/s looked up; {latencies.since()}")


def main(values: int = 10_000_000) -> None:
    """Run the benchmark on a new installation."""
    context = get_context("spawn")
    sent, fed = context.Value("q", 0), context.Value("q", 0)
    transforms = [{"type": "redis_set_filter", "filter_expr": "root = this.to_address"}]
    port = free_port()
    with (
        running_installation(("--metrics-port", str(port))) as installation,
        installation.client() as client,
        deployed(client, pipeline(ENTITY, transforms=transforms, parallelism=WORKERS)) as deployment,
        reading(deployment.sink) as reader,
    ):
        with feeding(installation, sent, fed):
            until(lambda: received(client, deployment) > 0)
            latencies = Latencies(port)
            measure_while("nothing written", client, deployment, latencies, lambda: time.sleep(QUIET_S))
            started = time.monotonic()
            write = lambda: upload(client, deployment.filter_url(), values, sent)  # noqa: E731
            measure_while("values added", client, deployment, latencies, write)
            typer.echo(f"  {values / (time.monotonic() - started):,.0f} values/s added")
            measure_while("nothing written", client, deployment, latencies, lambda: time.sleep(QUIET_S))
        check(reader, fed.value)
        typer.echo(f"{fed.value:,} records of members passed, and no other")


if __name__ == "__main__":
    typer.run(main)
