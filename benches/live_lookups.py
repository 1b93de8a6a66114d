"""Four workers look up 50,000 records a second together while their set grows: `python -m benches.live_lookups`

A whole installation: records come by Kafka, values by HTTP in requests of 250,000, five at once. Every answer is
checked: a record whose value was in an answered request when the record was written passes, one whose value is never
sent does not. Reference of the same run: the same lookups while nothing is written, before and after.
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

from benches._installation import installation
from benches._workload import address
from headwater.model.value_sets import MAX_VALUES_PER_REQUEST
from tests.acceptance.stack import Deployed, Reader, Stack, deployed, pipeline, reading
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
    """Write records at a steady rate; each MEMBER_EVERY-th is of a value that an answered request has brought."""
    producer = Producer({**config, "linger.ms": 5, "compression.type": "lz4", "log_level": 0})
    due, number = time.monotonic(), 0
    while not stop.is_set():
        sure = sent.value
        for _ in range(int(RATE * SLICE_S)):
            is_member = number % MEMBER_EVERY == 0 and sure > 0
            who = address(number * 7919 % sure) if is_member else address(10**12 + number)
            record = b'{"n":%d,"member":%d,"to_address":"%s"}' % (number, is_member, who.encode())
            while True:
                try:
                    producer.produce(f"stream.base.{ENTITY}", record, b"%d" % number)
                    break
                except BufferError:  # the machine does less than RATE: the rate that is printed shows it
                    producer.poll(0.05)
            number += 1
            fed.value += is_member
        producer.poll(0)
        due += SLICE_S
        time.sleep(max(0.0, due - time.monotonic()))
    assert producer.flush(60) == 0


def upload(client: httpx2.Client, url: str, values: int, sent: "Synchronized[int]") -> None:
    """Send all values; `sent` says how many of the first ones are in answered requests."""
    done: set[int] = set()

    def post(first: int) -> None:
        body = json.dumps({"values": [address(number) for number in range(first, first + MAX_VALUES_PER_REQUEST)]})
        answer = client.post(url, content=body, headers={"Content-Type": "application/json"}, timeout=300)
        assert answer.json()["added"] == MAX_VALUES_PER_REQUEST, answer.text
        done.add(first)
        while sent.value in done:
            sent.value += MAX_VALUES_PER_REQUEST

    with ThreadPoolExecutor(UPLOADS) as pool:
        list(pool.map(post, range(0, values, MAX_VALUES_PER_REQUEST)))
    assert sent.value == values


class Latencies:
    """The workers' histogram of lookup batches, from the port of metrics."""

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
        """Median and p99 of the batches since the last call."""
        now = self._buckets()
        counts = {bound: value - self._before.get(bound, 0) for bound, value in sorted(now.items())}
        self._before = now
        return f"{max(counts.values()):,.0f} lookup batches: p50 {quantile(counts, 0.5)}  p99 {quantile(counts, 0.99)}"


def quantile(counts: dict[float, float], share: float) -> str:
    """As Prometheus has it: linear within the bucket, whose bounds are told too. counts: up to each bound in s."""
    wanted, lower, below = share * max(counts.values()), 0.0, 0.0
    for bound, count in counts.items():
        if count >= wanted:
            within = (wanted - below) / (count - below)
            return f"{1e3 * (lower + within * (bound - lower)):.1f} ms ({1e3 * lower:.1f} to {1e3 * bound:.1f})"
        lower, below = bound, count
    raise AssertionError("no batches")


@contextmanager
def feeding(stack: Stack, sent: "Synchronized[int]", fed: "Synchronized[int]") -> Iterator[None]:
    context = get_context("spawn")
    stop = context.Event()
    feeder = context.Process(target=feed, args=(stack.admin_config(), sent, fed, stop))
    feeder.start()
    yield
    stop.set()
    feeder.join()
    assert feeder.exitcode == 0


def received(client: httpx2.Client, made: Deployed) -> int:
    """Records that the workers have read in the last hour, as the API tells."""
    answer = client.get(f"/api/v1/flow/{made.id}/deploy/metrics", params={"metrics": "messages_received"}).json()
    return int(sum(point["value"] for point in answer["metrics"][0]["points"]))


def check(reader: Reader, members: int) -> None:
    """All members came, each once, and nobody else."""
    found = [record.json() for record in reader.read(members, 120)]
    assert all(record["member"] for record in found)
    assert len({record["n"] for record in found}) == len(found) == members


def stretch(name: str, client: httpx2.Client, made: Deployed, latencies: Latencies, work: Any) -> None:
    """Print what the workers did while `work` ran."""
    before, began = received(client, made), time.monotonic()
    work()
    rate = (received(client, made) - before) / (time.monotonic() - began)
    typer.echo(f"{name}: {rate:,.0f} records/s looked up; {latencies.since()}")


def main(values: int = 10_000_000) -> None:
    """Run all."""
    context = get_context("spawn")
    sent, fed = context.Value("q", 0), context.Value("q", 0)
    transforms = [{"type": "redis_set_filter", "filter_expr": "root = this.to_address"}]
    port = free_port()
    with (
        installation(("--metrics-port", str(port))) as stack,
        stack.client() as client,
        deployed(client, pipeline(ENTITY, transforms=transforms, parallelism=WORKERS)) as made,
        reading(made.sink) as reader,
    ):
        with feeding(stack, sent, fed):
            until(lambda: received(client, made) > 0)
            latencies = Latencies(port)
            stretch("nothing written", client, made, latencies, lambda: time.sleep(QUIET_S))
            began = time.monotonic()
            write = lambda: upload(client, made.filter_url(), values, sent)  # noqa: E731
            stretch("values added", client, made, latencies, write)
            typer.echo(f"  {values / (time.monotonic() - began):,.0f} values/s added")
            stretch("nothing written", client, made, latencies, lambda: time.sleep(QUIET_S))
        check(reader, fed.value)
        typer.echo(f"{fed.value:,} records of members passed, and no other")


if __name__ == "__main__":
    typer.run(main)
