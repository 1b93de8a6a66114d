"""The end-to-end latency of a pipeline: `python -m benches.latency`.

A complete installation runs a pipeline with a filter and a script, which gets 1,000 records per second at equal
intervals. The latency is the time from the record's timestamp, which the feeder sets in ms, to its arrival at a
consumer with the deployment's credentials. Every output is checked. The reference is the latency of the same records
in the source topic.
"""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benches._installation import running_installation
from benches._workload import DISTINCT, SCRIPT, Workload
from tests.acceptance.installation import Installation, client_config, deploy, pipeline

CHAIN, ENTITY = "base", "erc20_token_transfer"
SOURCE = f"stream.{CHAIN}.{ENTITY}"
WORK = "filter, script"
TRANSFORMS = [
    {"type": "redis_set_filter", "filter_expr": "root = this.to_address"},
    {"type": "v8", "script": SCRIPT},
]
WARM_UP_S = 5.0
WAIT_S = 60.0
VALUES_PER_REQUEST = 20_000


class Arrivals(threading.Thread):
    """Consumes a topic from its end.

    Attributes:
        received: The value of each record, and its age on arrival in ms.
    """

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        super().__init__()
        self.received: list[tuple[bytes, float]] = []
        self._consumer = Consumer(config)
        numbers = self._consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        ends = [self._consumer.get_watermark_offsets(TopicPartition(topic, number), WAIT_S) for number in numbers]
        starts = zip(numbers, ends, strict=True)
        self._consumer.assign([TopicPartition(topic, number, high) for number, (_, high) in starts])
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.05)
            if message is not None:
                self._record(message)
        self._consumer.close()

    def _record(self, message: Message) -> None:
        now_ms = 1000 * time.time()
        assert message.error() is None, message.error()
        self.received.append((message.value() or b"", now_ms - message.timestamp()[1]))

    def wait_for(self, count: int) -> None:
        """Wait until `count` records have arrived."""
        deadline = time.monotonic() + WAIT_S
        while len(self.received) < count:
            assert time.monotonic() < deadline, f"{len(self.received)} of {count} records arrived"
            time.sleep(0.05)

    def finish(self) -> None:
        """Stop consuming and wait for the thread."""
        self._ended.set()
        self.join()


@contextmanager
def arriving(*readers: Arrivals) -> Iterator[None]:
    """Run the readers' threads for the block."""
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        for reader in readers:
            reader.finish()


def feed(config: dict[str, Any], values: list[bytes], rate: int) -> None:
    """Write records at the given rate per second, each with the current time as its timestamp."""
    producer = Producer({**config, "linger.ms": 0, "enable.idempotence": True})
    started = time.time()
    for number, value in enumerate(values):
        while (early_s := started + number / rate - time.time()) > 0:
            time.sleep(early_s)
        producer.produce(SOURCE, value, b"%d" % number, timestamp=int(1000 * time.time()))
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def check(workload: Workload, fed: int, outputs: list[bytes]) -> None:
    """Assert that every expected record was output correctly and exactly once."""
    expected = [number for number in range(fed) if workload.passes(WORK)(number)]
    left = {workload.records[number]["unique_id"]: number for number in expected}
    assert len(left) == len(outputs) == len(expected), (len(left), len(outputs))
    for output in outputs:
        assert workload.is_correct(WORK, left.pop(unique_id(output)), output), output


def unique_id(output: bytes) -> str:
    return output.partition(b'"unique_id":"')[2].partition(b'"')[0].decode()


def print_percentiles(name: str, latencies: list[float]) -> float:
    """Print the percentiles and return the median."""
    percentiles = statistics.quantiles(latencies, n=100)
    typer.echo(
        f"{name:24} {len(latencies):6,} records: p50 {percentiles[49]:5.1f} ms  p90 {percentiles[89]:5.1f} ms  "
        f"p99 {percentiles[98]:5.1f} ms  max {max(latencies):6.1f} ms"
    )
    return percentiles[49]


def measure(installation: Installation, rate: int, seconds: float) -> None:
    """Deploy the pipeline, feed it, check its outputs, and print the latencies."""
    workload, fed = Workload(), int(rate * seconds)
    members = [workload.records[n]["to_address"] for n in range(DISTINCT) if workload.is_member[n]]
    assert fed <= DISTINCT
    with installation.client() as client:
        deployment = deploy(client, pipeline(ENTITY, CHAIN, transforms=TRANSFORMS))
        for at in range(0, len(members), VALUES_PER_REQUEST):
            client.post(
                deployment.filter_url(), json={"values": members[at : at + VALUES_PER_REQUEST]}
            ).raise_for_status()
        warm_up_values = workload.values[-int(rate * WARM_UP_S) :]
        source = Arrivals({**installation.admin_config(), "group.id": "latency"}, SOURCE)
        sink = Arrivals(client_config(deployment.sink), deployment.sink["topic"])
        with arriving(source, sink):
            feed(installation.admin_config(), warm_up_values, rate)
            source.wait_for(len(warm_up_values))
            time.sleep(1)
            for reader in (source, sink):
                reader.received.clear()
            feed(installation.admin_config(), workload.values[:fed], rate)
            source.wait_for(fed)
            sink.wait_for(sum(map(workload.passes(WORK), range(fed))))
    check(workload, fed, [value for value, _ in sink.received])
    report(source, sink)


def report(source: Arrivals, sink: Arrivals) -> None:
    reference = print_percentiles("read from the source", [age for _, age in source.received])
    median = print_percentiles("read from the sink", [age for _, age in sink.received])
    typer.echo(f"  {median / reference:.1f} x the reference")


def main(rate: int = 1_000, seconds: float = 30) -> None:
    """Run the benchmark on a new installation."""
    with running_installation() as installation:
        measure(installation, rate, seconds)


if __name__ == "__main__":
    typer.run(main)
