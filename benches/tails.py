"""The latency and the CPU of live tails: `python -m benches.tails`.

In a complete installation, 50 clients follow records: 25 follow one stream, and each of 25 others follows one sink of
three pipelines. The stream gets 500 records per second, of which each tail shows 200, and the 25 sinks get 20 each. The
latency is the time from a record's append, which the broker stamps, to its arrival at a client. CPU is the sum of all
processes of the API, with and without the tails. The reference of the same run is a bare consumer of the same topics in
a process of its own.
"""

import re
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from typing import Any

import typer
from confluent_kafka import Consumer, TopicPartition

from benches._installation import running_installation
from tests.acceptance.installation import Deployed, Installation, deployed, in_background, pipeline
from tests.support.processes import cpu_seconds

CHAIN, FOLLOWED, SOURCE = "base", "log", "decoded_log"
SINKS = (9, 8, 8)
STREAM_TAILS = 25
STREAM_RATE, OUTPUT_RATE = 500, 20
WARM_UP_S, WAIT_S = 5.0, 60.0
_TIMESTAMP = re.compile(rb'"timestamp":"([^"]+)"')


class Clients(threading.Thread):
    """Reads live tails, each on a connection of its own.

    Attributes:
        received: The number of records of each connection.
        latencies: The latencies in ms of the records of the first connection, which follows the stream.
    """

    def __init__(self, installation: Installation, paths: Sequence[str]) -> None:
        super().__init__()
        self._stopped = threading.Event()
        self._selector = selectors.DefaultSelector()
        self.received = [0] * len(paths)
        self.latencies: list[float] = []
        for number, path in enumerate(paths):
            connection = socket.create_connection(("127.0.0.1", installation.port), WAIT_S)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {installation.key}\r\n\r\n".encode())
            head = connection.recv(1 << 16)
            assert head.startswith(b"HTTP/1.1 200 "), head
            self._selector.register(connection, selectors.EVENT_READ, number)

    def run(self) -> None:
        while not self._stopped.is_set():
            for key, _ in self._selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                self._record(key.data, key.fileobj.recv(1 << 18))
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()

    def _record(self, number: int, data: bytes) -> None:
        now_ms = time.time() * 1000
        found = _TIMESTAMP.findall(data)
        self.received[number] += len(found)
        if number == 0:
            times = (datetime.fromisoformat(each.decode()) for each in found)
            self.latencies += [now_ms - each.timestamp() * 1000 for each in times]

    def clear(self) -> None:
        """Forget what was received so far."""
        self.received = [0] * len(self.received)
        self.latencies = []

    def finish(self) -> None:
        """Close all connections."""
        self._stopped.set()
        self.join()


@contextmanager
def clients(installation: Installation, paths: Sequence[str]) -> Iterator[Clients]:
    """Open tails for the block."""
    reading = Clients(installation, paths)
    reading.start()
    try:
        yield reading
    finally:
        reading.finish()


def consume(config: dict[str, Any], topics: Sequence[str], seconds: float, result: Connection) -> None:
    """Read topics from their ends, and send the share of a core and a latency.

    The latency is the median of the first topic, in ms.
    """
    consumer = Consumer({**config, "group.id": "wrk-bench", "log_level": 0})
    partitions = [TopicPartition(topic, number) for topic in topics for number in range(4)]
    ends = [consumer.get_watermark_offsets(each, WAIT_S)[1] for each in partitions]
    consumer.assign([TopicPartition(e.topic, e.partition, end) for e, end in zip(partitions, ends, strict=True)])
    latencies: list[float] = []
    started, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - started < seconds:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None and message.topic() == topics[0]:
            latencies.append(time.time() * 1000 - message.timestamp()[1])
    result.send(((time.process_time() - cpu) / (time.monotonic() - started), statistics.median(latencies)))
    consumer.close()


class Feed:
    """Writes records to the stream and to the source of the pipelines at steady rates."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def __call__(self, stop: threading.Event) -> None:
        started, sent = time.monotonic(), {FOLLOWED: 0, SOURCE: 0}
        while not stop.wait(0.02):
            for entity, rate in ((FOLLOWED, STREAM_RATE), (SOURCE, OUTPUT_RATE)):
                due = int((time.monotonic() - started) * rate)
                self._installation.feed(CHAIN, entity, (_record(n) for n in range(sent[entity], due)))
                sent[entity] = due


def _record(number: int) -> dict[str, Any]:
    return {"n": number, "transaction_hash": f"0x{number:064x}", "log_index": 0, "data": "0x" + "ab" * 300}


def api_processes(installation: Installation) -> list[int]:
    """Return the processes of the API."""
    pids = installation.processes("headwater api")
    assert pids
    return pids


def share_of_a_core(pids: Sequence[int], seconds: float) -> float:
    """Return the CPU seconds per second that these processes use."""
    before, started = sum(map(cpu_seconds, pids)), time.monotonic()
    time.sleep(seconds)
    return (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - started)


def measure(installation: Installation, deployments: Sequence[Deployed], seconds: float) -> None:
    """Follow the stream and all sinks, and print the latency and the CPU."""
    sinks = [(each.id, sink["name"]) for each in deployments for sink in each.deploy_response["sinks"]]
    paths = [f"/api/v1/flow/streams/{CHAIN}/{FOLLOWED}/records/tail"] * STREAM_TAILS
    paths += [f"/api/v1/flow/{config_id}/deploy/records/tail?sink={name}" for config_id, name in sinks]
    topics = [f"stream.{CHAIN}.{FOLLOWED}", *(f"flow.{config_id}.{name}" for config_id, name in sinks)]
    pids = api_processes(installation)
    with in_background(Feed(installation)):
        time.sleep(WARM_UP_S)
        idle = share_of_a_core(pids, seconds / 2)
        with clients(installation, paths) as reading:
            time.sleep(WARM_UP_S)
            receiver, sender = Pipe(duplex=False)
            arguments = (installation.admin_config(), topics, seconds, sender)
            reference = get_context("spawn").Process(target=consume, args=arguments)
            reference.start()
            reading.clear()
            used = share_of_a_core(pids, seconds)
            latencies, received = reading.latencies, list(reading.received)
            bare_cpu, bare_latency = receiver.recv()
            reference.join()
    report(latencies, received, used - idle, seconds)
    median = statistics.median(latencies)
    typer.echo(
        f"bare consumer: {bare_latency:.0f} ms, {bare_cpu:.1%} of a core; the tails: {median / bare_latency:.1f} x the "
        f"latency, {(used - idle) / bare_cpu:.1f} x the CPU"
    )


def report(latencies: Sequence[float], received: Sequence[int], cpu: float, seconds: float) -> None:
    percentiles = statistics.quantiles(latencies, n=100)
    typer.echo(
        f"{len(received)} tails, {sum(received) / seconds:,.0f} records/s shown: p50 {percentiles[49]:.0f} ms  "
        f"p99 {percentiles[98]:.0f} ms, {cpu:.1%} of a core more than without tails"
    )


def main(seconds: float = 20) -> None:
    """Run the benchmark on a new installation."""
    flags = ("--live-tails-per-owner", "50")
    with running_installation(flags) as installation, installation.client() as client, ExitStack() as stack:
        bodies = [
            pipeline(SOURCE, CHAIN, sinks=[{"type": "kafka", "name": f"s{number}"} for number in range(count)])
            for count in SINKS
        ]
        deployments = [stack.enter_context(deployed(client, body)) for body in bodies]
        measure(installation, deployments, seconds)


if __name__ == "__main__":
    typer.run(main)
