"""How old a record is when a reader has it: `python -m benches.latency`.

A whole installation; a pipeline with a filter and a script; 1,000 records a second, spread evenly. Latency is the time
from the record's timestamp (the feeder's, in ms) to its arrival at a reader, who uses the deployment's credentials.
Every output is checked. Reference of the same run: the same records, read from the source topic itself.
"""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benches._installation import installation
from benches._workload import DISTINCT, SCRIPT, Workload
from tests.acceptance.stack import Stack, client_config, deploy, pipeline

CHAIN, ENTITY = "base", "erc20_token_transfer"
SOURCE = f"stream.{CHAIN}.{ENTITY}"
WORK = "filter, script"
TRANSFORMS = [
    {"type": "redis_set_filter", "filter_expr": "root = this.to_address"},
    {"type": "v8", "script": SCRIPT},
]
WARM_UP_S = 5.0
WAIT_S = 60.0
POST = 20_000


class Arrivals(threading.Thread):
    """Reads a topic from its end on. found: per record its value and how old it was when it came, in ms."""

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        super().__init__()
        self.found: list[tuple[bytes, float]] = []
        self._consumer = Consumer(config)
        numbers = self._consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        ends = [self._consumer.get_watermark_offsets(TopicPartition(topic, number), WAIT_S) for number in numbers]
        places = zip(numbers, ends, strict=True)
        self._consumer.assign([TopicPartition(topic, number, high) for number, (_, high) in places])
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.05)
            if message is not None:
                self._note(message)
        self._consumer.close()

    def _note(self, message: Message) -> None:
        now_ms = 1000 * time.time()
        assert message.error() is None, message.error()
        self.found.append((message.value() or b"", now_ms - message.timestamp()[1]))

    def wait_for(self, count: int) -> None:
        """Return when so many records came."""
        deadline = time.monotonic() + WAIT_S
        while len(self.found) < count:
            assert time.monotonic() < deadline, f"{len(self.found)} of {count} records came"
            time.sleep(0.05)

    def finish(self) -> None:
        """Read no more."""
        self._ended.set()
        self.join()


@contextmanager
def arriving(*readers: Arrivals) -> Iterator[None]:
    """The readers read during the block."""
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        for reader in readers:
            reader.finish()


def feed(config: dict[str, Any], values: list[bytes], rate: int) -> None:
    """Write records one by one, each at its time, with that time."""
    producer = Producer({**config, "linger.ms": 0, "enable.idempotence": True})
    began = time.time()
    for number, value in enumerate(values):
        while (early_s := began + number / rate - time.time()) > 0:
            time.sleep(early_s)
        producer.produce(SOURCE, value, b"%d" % number, timestamp=int(1000 * time.time()))
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def check(workload: Workload, fed: int, outputs: list[bytes]) -> None:
    """Every output is right, and each is there once."""
    wanted = [number for number in range(fed) if workload.passes(WORK)(number)]
    left = {workload.records[number]["unique_id"]: number for number in wanted}
    assert len(left) == len(outputs) == len(wanted), (len(left), len(outputs))
    for output in outputs:
        assert workload.is_right(WORK, left.pop(unique_id(output)), output), output


def unique_id(output: bytes) -> str:
    return output.partition(b'"unique_id":"')[2].partition(b'"')[0].decode()


def told(name: str, latencies: list[float]) -> float:
    """Print and return the median."""
    centiles = statistics.quantiles(latencies, n=100)
    typer.echo(
        f"{name:24} {len(latencies):6,} records: p50 {centiles[49]:5.1f} ms  p90 {centiles[89]:5.1f} ms  "
        f"p99 {centiles[98]:5.1f} ms  most {max(latencies):6.1f} ms"
    )
    return centiles[49]


def measure(stack: Stack, rate: int, seconds: float) -> None:
    """Deploy, feed, read, check, tell."""
    workload, fed = Workload(), int(rate * seconds)
    members = [workload.records[n]["to_address"] for n in range(DISTINCT) if workload.is_member[n]]
    assert fed <= DISTINCT
    with stack.client() as client:
        made = deploy(client, pipeline(ENTITY, CHAIN, transforms=TRANSFORMS))
        for at in range(0, len(members), POST):
            client.post(made.filter_url(), json={"values": members[at : at + POST]}).raise_for_status()
        warm_up = workload.values[-int(rate * WARM_UP_S) :]
        source = Arrivals({**stack.admin_config(), "group.id": "latency"}, SOURCE)
        sink = Arrivals(client_config(made.sink), made.sink["topic"])
        with arriving(source, sink):
            feed(stack.admin_config(), warm_up, rate)
            source.wait_for(len(warm_up))
            time.sleep(1)
            for reader in (source, sink):
                reader.found.clear()
            feed(stack.admin_config(), workload.values[:fed], rate)
            source.wait_for(fed)
            sink.wait_for(sum(map(workload.passes(WORK), range(fed))))
    check(workload, fed, [value for value, _ in sink.found])
    tell(source, sink)


def tell(source: Arrivals, sink: Arrivals) -> None:
    reference = told("read from the source", [age for _, age in source.found])
    median = told("read from the sink", [age for _, age in sink.found])
    typer.echo(f"  {median / reference:.1f} x the reference")


def main(rate: int = 1_000, seconds: float = 30) -> None:
    """Run on an installation of its own."""
    with installation() as stack:
        measure(stack, rate, seconds)


if __name__ == "__main__":
    typer.run(main)
