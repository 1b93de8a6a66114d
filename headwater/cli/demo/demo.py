"""The steps of the demo.

They are: start, create, deploy, write, read, change the filter live, measure, verify, prices, tear down.
"""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console

from headwater.cli.demo import prices
from headwater.cli.demo.screen import Screen, percentiles
from headwater.cli.demo.streams import DemoStream, canonical
from headwater.errors import SetupError

START_WITHIN_S = 120.0
STOP_WITHIN_S = 60.0
READ_WITHIN_S = 60.0
SHOWN_OUTPUT_LINES = 20
STEADY_RATE = 2000
STEADY_RECORDS = 12_000

Feed = Callable[[Path, str, str, Iterator[bytes], float], int]
"""Writes records: (data directory, chain, entity, lines, records a second) → number of records written."""


class Demo:
    """Runs the demo. `run` returns the exit status."""

    def __init__(self, stream: DemoStream, cache_dir: Path, feed: Feed, console: Console) -> None:
        self._stream = stream
        self._cache_dir = cache_dir
        self._feed = feed
        self._console = console
        self._sent = 0
        self._results: Counter[str] = Counter()
        self._seen: set[str] = set()

    def run(self) -> int:
        with tempfile.TemporaryDirectory(prefix="headwater-demo-") as folder, Screen(self._console) as screen:
            data_dir = Path(folder) / "data"
            started = time.monotonic()
            with running(data_dir, self._cache_dir) as client:
                screen.say(f"1. Started Kafka, Valkey, API and controller in {time.monotonic() - started:.1f} s.")
                return self._run(client, data_dir, screen)

    def _run(self, client: httpx2.Client, data_dir: Path, screen: Screen) -> int:
        flow = self._create(client, screen)
        sink = self._deploy(client, flow["id"], screen)
        with reader(sink) as consumer:
            is_correct = self._stream_through(client, flow, consumer, data_dir, screen)
        _checked(client.post(f"/api/v1/flow/{flow['id']}/teardown"))
        _checked(client.delete(f"/api/v1/flow/{flow['id']}"))
        is_correct &= self._prices(client, data_dir, screen)
        screen.say("8. Torn down: workers, access rules, credentials and topics are removed.")
        return 0 if is_correct else 1

    def _prices(self, client: httpx2.Client, data_dir: Path, screen: Screen) -> bool:
        config_id = _checked(client.post("/api/v1/flow", json=prices.BODY))["id"]
        _checked(client.post(f"/api/v1/flow/{config_id}/deploy"))
        prices.feed_trades(self._feed, data_dir)
        stats = prices.price(client)
        _checked(client.delete(f"/api/v1/flow/{config_id}"))
        if stats is None or not prices.is_correct(stats):
            screen.say(f"7. The prices are not correct: {stats}")
            return False
        screen.say(
            f"7. Prices of four trades through a second pipeline: {stats['latest_price']:,.0f} USD, in the last hour "
            f"{stats['low_1h']:,.0f} to {stats['high_1h']:,.0f}, {stats['percent_change_1h']:+.1f} %."
        )
        return True

    def _create(self, client: httpx2.Client, screen: Screen) -> dict[str, Any]:
        s = self._stream
        body = {
            "name": "Headwater demo",
            "pipeline_config": {
                "source": {"chain": s.chain, "entity": s.entity},
                "transforms": [
                    {"type": "redis_set_filter", "filter_expr": s.filter_expr, "set_values": s.watched},
                    {"type": "v8", "script": s.script},
                ],
                "sinks": [{"type": "kafka", "name": "watched"}],
            },
        }
        flow: dict[str, Any] = _checked(client.post("/api/v1/flow", json=body))
        screen.say(
            f"2. Created pipeline {flow['id']}: {s.chain} {s.entity}, filter on {len(s.watched)} values, script."
        )
        return flow

    def _deploy(self, client: httpx2.Client, config_id: str, screen: Screen) -> dict[str, Any]:
        started = time.monotonic()
        sink: dict[str, Any] = _checked(client.post(f"/api/v1/flow/{config_id}/deploy"))["sinks"][0]
        screen.say(
            f"3. Deployed in {time.monotonic() - started:.2f} s: topic {sink['topic']}, user {sink['username']}."
        )
        return sink

    def _stream_through(
        self, client: httpx2.Client, flow: dict[str, Any], consumer: Consumer, data_dir: Path, screen: Screen
    ) -> bool:
        steady, burst = self._stream.lines[:STEADY_RECORDS], self._stream.lines[STEADY_RECORDS:]
        screen.say(f"4. Writing {len(steady):,} records at {STEADY_RATE:,} a second; these records are delivered:")
        with ThreadPoolExecutor(1) as pool:
            feeding = pool.submit(self._feed_counting, data_dir, steady, STEADY_RATE)
            self._read_while(consumer, screen, lambda: self._sent < len(steady) // 2 and not feeding.done())
            first = self._add_value(client, flow, screen)
            latencies = self._read_while(consumer, screen, lambda: not feeding.done())
            feeding.result()
        required, optional = self._stream.expected(first)
        if burst:
            self._burst(data_dir, consumer, screen, burst, required)
        latencies_note = percentiles(latencies)
        self._read_while(consumer, screen, lambda: not self._complete(required), READ_WITHIN_S)
        screen.say(f"   End to end (appended to the stream → read from the topic), steady: {latencies_note}.")
        return self._check(required, optional, screen)

    def _feed_counting(self, data_dir: Path, lines: list[bytes], rate: float) -> None:
        def counted() -> Iterator[bytes]:
            for line in lines:
                self._sent += 1
                yield line

        self._feed(data_dir, self._stream.chain, self._stream.entity, counted(), rate)

    def _add_value(self, client: httpx2.Client, flow: dict[str, Any], screen: Screen) -> int:
        """Add a value to the filter while records flow.

        Returns the number of the first record that is certainly sent after the change.
        """
        uid = flow["pipeline_config"]["transforms"][0]["uid"]
        url = f"/api/v1/flow/{flow['id']}/transforms/{uid}/filter-values"
        started = time.monotonic()
        _checked(client.post(url, json={"values": [self._stream.added_value]}))
        took_ms = (time.monotonic() - started) * 1000
        screen.say(
            f"5. Added {self._stream.added_value} to the filter in {took_ms:.0f} ms, without a redeploy. Its records:",
            only_with=self._stream.added_value,
        )
        return self._sent + 1

    def _burst(
        self, data_dir: Path, consumer: Consumer, screen: Screen, lines: list[bytes], required: list[str]
    ) -> None:
        started = time.monotonic()
        self._feed_counting(data_dir, lines, 0)
        fed = time.monotonic()
        self._read_while(consumer, screen, lambda: not self._complete(required), READ_WITHIN_S)
        ended = time.monotonic()
        screen.say(
            f"6. Burst of {len(lines):,} records: written at {len(lines) / (fed - started):,.0f} a second, "
            f"through the pipeline at {len(lines) / (ended - started):,.0f} a second."
        )

    def _read_while(
        self, consumer: Consumer, screen: Screen, should_continue: Callable[[], bool], within_s: float = 300.0
    ) -> list[float]:
        """Read records while `should_continue` returns true.

        Returns the end-to-end latencies in ms.
        """
        latencies = []
        deadline = time.monotonic() + within_s
        while should_continue() and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.05):
                error, value = message.error(), message.value()
                if error is not None or value is None:
                    raise SetupError(f"Reading the pipeline's topic failed: {error}.")
                source = str(dict(message.headers() or [])["headwater-src"])
                if source in self._seen:
                    continue
                self._seen.add(source)
                latencies.append(time.time() * 1000 - message.timestamp()[1])
                record = json.loads(value)
                self._results[canonical(record)] += 1
                screen.arrived(latencies[-1], self._stream.summary(record), canonical(record))
        return latencies

    def _complete(self, required: list[str]) -> bool:
        return self._results.total() >= len(required) and not Counter(required) - self._results

    def _check(self, required: list[str], optional: set[str], screen: Screen) -> bool:
        missing = Counter(required) - self._results
        extra = [result for result in (self._results - Counter(required)) if result not in optional]
        screen.say(
            f"   Verified against an independent computation: {len(required):,} of {len(self._stream.lines):,} records "
            f"should be delivered; {missing.total():,} are missing, {len(extra):,} are unexpected."
        )
        return not missing and not extra


@contextlib.contextmanager
def running(data_dir: Path, cache_dir: Path) -> Iterator[httpx2.Client]:
    """Run `headwater up` in a child process, which is stopped at the end."""
    port = _free_port()
    flags = ["--data-dir", str(data_dir), "--cache-dir", str(cache_dir), "--port", str(port)]
    command = [sys.executable, "-m", "headwater", "up", *flags]
    with tempfile.TemporaryFile() as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield _wait_until_ready(process, data_dir, port, lambda: _text(output))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_WITHIN_S)


def _text(file: Any) -> str:
    """Return the last lines of a process's output."""
    file.seek(0)
    lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-SHOWN_OUTPUT_LINES:])


def _wait_until_ready(
    process: subprocess.Popen[bytes], data_dir: Path, port: int, output: Callable[[], str]
) -> httpx2.Client:
    deadline = time.monotonic() + START_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=5).is_success:
                key = (data_dir / "api-key").read_text().strip()
                return httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"X-API-Key": key}, timeout=70)
        time.sleep(0.05)
    raise SetupError(f"Headwater did not start: {output().strip() or 'it printed nothing'}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextlib.contextmanager
def reader(sink: dict[str, Any]) -> Iterator[Consumer]:
    """Open a consumer with the values of the deploy response, at the beginning of the topic."""
    values = {
        "bootstrap.servers": sink["bootstrap_servers"],
        "security.protocol": sink["security_protocol"],
        "sasl.mechanism": sink["sasl_mechanism"],
        "sasl.username": sink["username"],
        "sasl.password": sink["password"],
        "group.id": sink["consumer_group"],
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }
    consumer = Consumer({name: value for name, value in values.items() if value is not None})
    try:
        partitions = consumer.list_topics(sink["topic"], timeout=15).topics[sink["topic"]].partitions
        consumer.assign([TopicPartition(sink["topic"], number, 0) for number in partitions])
        yield consumer
    finally:
        consumer.close()


def _checked(answer: httpx2.Response) -> Any:
    if answer.is_success:
        return answer.json()
    raise SetupError(f"{answer.request.method} {answer.request.url.path} answered {answer.status_code}: {answer.text}")
