"""Lists, summarizes and redrives many dead letters.

`python -m benches.dead_letters --letters 1000000` runs it. A complete installation runs a pipeline whose script fails
for every record. The letters are then listed, summarized and redriven by HTTP. The references of the same run are GET
/healthz, a plain consumer of the dead-letter topic, and the latency of the pipeline while nothing is redriven.
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

import httpx2
import typer
from confluent_kafka import Consumer, TopicPartition

from benches._installation import running_installation
from benches.latency import Arrivals, arriving, feed, print_percentiles
from tests.acceptance.installation import Deployed, Installation, client_config, deploy, pipeline
from tests.support.waiting import until

CHAIN, ENTITY = "base", "erc20_token_transfer"
FAILS = "function process(record) { if (!record.live) throw new RangeError('not yet'); return record; }"
FIXED = "function process(record) { return record; }"
CHUNK = 50_000
ROUNDS = 100
LIVE_RATE = 500
LIVE_S = 20


def measure(name: str, request: Callable[[], httpx2.Response], rounds: int = ROUNDS) -> float:
    """Send a request several times, and return the median of its duration in ms."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        response = request()
        times.append(1000 * (time.perf_counter() - started))
        assert response.status_code == 200, response.text
    typer.echo(f"{name:28} p50 {statistics.median(times):7.1f} ms  max {max(times):7.1f} ms")
    return statistics.median(times)


def write_letters(installation: Installation, client: httpx2.Client, path: str, count: int) -> None:
    """Feed records that fail, and wait until all of them are dead letters."""
    for start in range(0, count, CHUNK):
        numbers = range(start, min(start + CHUNK, count))
        installation.feed(CHAIN, ENTITY, ({"n": number, "padding": "x" * 300} for number in numbers))
    until(lambda: sum(item["count"] for item in summary(client, path)) == count, 1_200, "the letters")


def summary(client: httpx2.Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get(f"{path}/summary").json()["items"]
    return items


def list_pages(client: httpx2.Client, path: str) -> float:
    """List pages of 100 letters, one after the other. Return the median in ms."""
    cursor: str | None = None

    def page() -> httpx2.Response:
        nonlocal cursor
        response = client.get(path, params={"limit": 100} | ({} if cursor is None else {"cursor": cursor}))
        cursor = response.json()["cursor"]
        return response

    return measure("page of 100 letters", page)


def count_by_consumer(installation: Installation, topic: str) -> float:
    """Read the dead-letter topic with a plain consumer. Return the letters per second."""
    consumer = Consumer({**installation.admin_config(), "group.id": "bench", "enable.auto.commit": False})
    numbers = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    left = sum(consumer.get_watermark_offsets(TopicPartition(topic, number), 20)[1] for number in numbers)
    total, started = left, time.perf_counter()
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    while left > 0:
        left -= len(consumer.consume(10_000, 1.0))
    consumer.close()
    return total / (time.perf_counter() - started)


def live_latency(installation: Installation, flow: Deployed, name: str) -> float:
    """Feed records of the stream, and return the p99 of their latency in ms."""
    values = [json.dumps({"live": True, "n": number}).encode() for number in range(LIVE_RATE * LIVE_S)]
    group = f"{flow.sink['consumer_group']}.{name.replace(' ', '-')}"
    outputs = Arrivals(client_config(flow.sink, group), flow.sink["topic"])
    with arriving(outputs):
        feed(installation.admin_config(), values, LIVE_RATE)
        until(lambda: live_count(outputs) == len(values), 120, "the outputs of the stream")
    latencies = [age for value, age in outputs.received if b'"live"' in value]
    print_percentiles(name, latencies)
    return statistics.quantiles(latencies, n=100)[98]


def live_count(outputs: Arrivals) -> int:
    return sum(b'"live"' in value for value, _ in outputs.received)


def main(letters: Annotated[int, typer.Option(help="The number of dead letters.")] = 200_000) -> None:
    """Measure with this number of letters."""
    with running_installation() as installation, installation.client() as client:
        body = pipeline(ENTITY, CHAIN, transforms=[{"type": "v8", "script": FAILS}], name="letters")
        flow = deploy(client, body)
        base = f"/api/v1/flow/{flow.id}"
        path = f"{base}/dead-letters"
        write_letters(installation, client, path, letters)
        health = measure("/healthz", lambda: client.get("/healthz"))
        page = list_pages(client, path)
        typer.echo(f"a page takes {page / health:.1f} times as long as /healthz")
        measure("page of a rare error", lambda: client.get(path, params={"error": "TypeError"}), 10)
        measure("summary", lambda: client.get(f"{path}/summary"), 20)
        started = time.perf_counter()
        dry = client.post(f"{path}/redrive", json={"all": True, "dry_run": True})
        rate = letters / (time.perf_counter() - started)
        assert dry.json() == {"requested": letters}, dry.text
        reference = count_by_consumer(installation, f"flow.{flow.id}.dlq")
        typer.echo(f"letters counted by a dry run: {rate:,.0f}/s, {rate / reference:.2f} of a plain consumer")
        alone = live_latency(installation, flow, "alone")
        client.patch(f"{base}/transforms/{flow.uid()}", json={"type": "v8", "script": FIXED}).raise_for_status()
        started = time.perf_counter()
        redrive = client.post(f"{path}/redrive", json={"all": True}).json()
        beside = live_latency(installation, flow, "beside a redrive")
        state = f"{base}/redrives/{redrive['id']}"
        until(lambda: client.get(state).json()["state"] == "done", 1_800, "the end of the redrive")
        assert client.get(state).json()["delivered"] == letters
        typer.echo(f"redriven: {letters / (time.perf_counter() - started):,.0f} letters/s")
        typer.echo(f"p99 of the stream beside a redrive: {beside - alone:+.0f} ms, {beside / alone:.1f} times as long")


if __name__ == "__main__":
    typer.run(main)
