"""Measures validations on records of the stream: `python -m benches.trials`.

A complete installation has a stream of 10,000 records of about 850 bytes, and a pipeline with a filter and a script is
deployed. A changed script is validated on all of them, against what is deployed. The reference of the same run reads
the same records with a bare consumer, and passes them through both scripts in a sandbox that runs already.

Then four validations run all the time, while lists and deploys are measured with and without them. The scripts of these
validations use all of the time that they get.
"""

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import httpx2
import typer
from confluent_kafka import Consumer, TopicPartition

from benches._installation import running_installation
from headwater.model.record import RecordBatch
from headwater.sandbox import Sandbox
from tests.acceptance.installation import Deployed, Installation, deployed, in_background, pipeline

CHAIN, ENTITY = "base", "log"
FLOW = "/api/v1/flow"
RECORDS = 10_000
BATCH_RECORDS = 500
KEPT = "0x" + "a" * 40
FILTER = {"type": "redis_set_filter", "filter_expr": "root = this.address"}
BEFORE = "function process(r) { r.usd = Number(r.amount) / 1e6; return r; }"
AFTER = "function process(r) { if (r.n % 10 === 0) return null; r.usd = Number(r.amount) / 1e6; return r; }"
BUSY = "function process(r) { let sum = 0; for (let i = 0; i < 200000; i++) sum += i; r.sum = sum; return r; }"
CONCURRENT = 4
LISTS, DEPLOYS = 300, 5
LIST_EVERY_S = 0.02


def record(number: int) -> dict[str, Any]:
    return {
        "n": number,
        "address": KEPT,
        "amount": str(10**6 * number),
        "transaction_hash": f"0x{number:064x}",
        "log_index": 0,
        "data": "0x" + "ab" * 310,
    }


def script(text: str) -> dict[str, str]:
    return {"type": "v8", "script": text}


def body(*transforms: dict[str, Any], **members: Any) -> dict[str, Any]:
    return pipeline(ENTITY, CHAIN, transforms=list(transforms)) | members


def validate(client: httpx2.Client, sent: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a validation and its response."""
    started = time.monotonic()
    response = client.post(f"{FLOW}/validate", json=sent)
    assert response.status_code == 200, response.text
    return time.monotonic() - started, response.json()


def reference(installation: Installation) -> float:
    """Return the seconds in which the same records are read and processed twice."""
    topic = f"stream.{CHAIN}.{ENTITY}"
    consumer = Consumer({**installation.admin_config(), "group.id": "wrk-bench", "log_level": 0})
    with Sandbox(spare=False) as sandbox:
        numbers = [sandbox.add(text, lambda query: [[] for _ in query]) for text in (BEFORE, AFTER)]
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        started = time.monotonic()
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        values: list[bytes] = []
        while len(values) < RECORDS:
            values += [message.value() or b"" for message in consumer.consume(BATCH_RECORDS, 1)]
        for first in range(0, RECORDS, BATCH_RECORDS):
            batch = _batch(values[first : first + BATCH_RECORDS])
            for number in numbers:
                sandbox.wait(sandbox.submit(number, batch))
        took_s = time.monotonic() - started
    consumer.close()
    return took_s


def _batch(values: Sequence[bytes]) -> RecordBatch:
    zeros = [0] * len(values)
    return RecordBatch.of("reference", values, [None] * len(values), zeros, zeros, range(len(values)), zeros)


def measure_lists(client: httpx2.Client) -> float:
    """Return the 99th percentile of the seconds of list requests."""
    times = []
    for _ in range(LISTS):
        started = time.monotonic()
        assert client.get(FLOW).status_code == 200
        times.append(time.monotonic() - started)
        time.sleep(LIST_EVERY_S)
    return statistics.quantiles(times, n=100)[98]


def measure_deploys(client: httpx2.Client) -> float:
    """Return the most seconds of a new deployment."""
    slowest = -math.inf
    for _ in range(DEPLOYS):
        created = client.post(FLOW, json=body(script(BEFORE))).json()
        started = time.monotonic()
        assert client.post(f"{FLOW}/{created['id']}/deploy").status_code == 200
        slowest = max(slowest, time.monotonic() - started)
        assert client.delete(f"{FLOW}/{created['id']}").status_code == 200
    return slowest


def keep_validating(installation: Installation, key: str) -> Callable[[threading.Event], None]:
    """Return a function that sends one validation after the other."""

    def send(stop: threading.Event) -> None:
        with installation.client(key) as client:
            while not stop.is_set():
                validate(client, body(script(BUSY), sample={"last": RECORDS}, detail="summary"))

    return send


def keys(installation: Installation) -> list[str]:
    """Return the keys of as many owners as are needed for CONCURRENT validations."""
    owners = [f"owner{number}" for number in range(CONCURRENT // 2)]
    created = [installation.run("keys", "create", "--owner", owner).stdout.strip() for owner in owners]
    return created * 2


def measure_one(installation: Installation, client: httpx2.Client, running: Deployed, rounds: int) -> None:
    """Print the seconds of a validation against what is deployed, and of the reference."""
    changed = body(FILTER | {"uid": running.uid()}, script(AFTER), id=running.id, detail="summary")
    request = changed | {"sample": {"last": RECORDS}, "against": "deployed"}
    times, references = [], []
    for _ in range(rounds):
        took_s, answer = validate(client, request)
        times.append(took_s)
        comparison = answer["comparison"]
        assert answer["sample"]["done"] == RECORDS
        assert (comparison["same"], comparison["only_before"]) == (RECORDS * 9 // 10, RECORDS // 10)
        references.append(reference(installation))
    ratio = statistics.median(times) / statistics.median(references)
    typer.echo(
        f"{RECORDS:,} records against what is deployed: {statistics.median(times):.2f} s (worst {max(times):.2f} s); "
        f"{ratio:.1f} x the bare consumer and sandbox ({statistics.median(references):.2f} s)"
    )


def main(rounds: int = 5) -> None:
    """Run the benchmark on a new installation."""
    with running_installation() as installation, installation.client() as client, ExitStack() as stack:
        running = stack.enter_context(deployed(client, body(FILTER | {"set_values": [KEPT]}, script(BEFORE))))
        installation.feed(CHAIN, ENTITY, map(record, range(RECORDS)))
        measure_one(installation, client, running, rounds)
        lists, deploys = measure_lists(client), measure_deploys(client)
        with ExitStack() as busy:
            for key in keys(installation):
                busy.enter_context(in_background(keep_validating(installation, key)))
            busy_lists, busy_deploys = measure_lists(client), measure_deploys(client)
            typer.echo(
                f"with {CONCURRENT} validations at once: lists p99 {busy_lists * 1000:.0f} ms (alone "
                f"{lists * 1000:.0f} ms, {busy_lists / lists:.1f} x), deploys {busy_deploys:.1f} s at most (alone "
                f"{deploys:.1f} s, {busy_deploys / deploys:.1f} x)"
            )


if __name__ == "__main__":
    typer.run(main)
