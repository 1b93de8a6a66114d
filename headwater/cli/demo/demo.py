"""The steps of the demo, from the start of Headwater to the teardown of the pipelines."""

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

from headwater.app.environments import PROXIES
from headwater.children import inherited_environment
from headwater.cli.demo import prices
from headwater.cli.demo.screen import Screen, percentiles
from headwater.cli.demo.streams import DemoStream, canonical
from headwater.errors import SetupError
from headwater.settings import Settings

START_WITHIN_S = 120.0
STOP_WITHIN_S = 60.0
READ_WITHIN_S = 60.0
SHOWN_OUTPUT_LINES = 20
STEADY_RATE = 2000
STEADY_RECORDS = 12_000

WriteRecords = Callable[[Path, str, str, Iterator[bytes], float], int]
"""Writes records: (data directory, chain, entity, lines, records a second) → number of records written."""


class Demo:
    """Runs the demo.

    Args:
        stream: The records to write, and the pipeline that filters them.
        settings: The settings of the embedded Kafka.
        write: Writes records to a stream.
        console: Where the demo prints.
    """

    def __init__(self, stream: DemoStream, settings: Settings, write: WriteRecords, console: Console) -> None:
        self._stream = stream
        self._settings = settings
        self._write = write
        self._console = console
        self._sent = 0
        self._results: Counter[str] = Counter()
        self._seen_record_ids: set[str] = set()

    def run(self) -> int:
        """Run all steps. Returns the exit status: 0 when all results are as expected, otherwise 1."""
        with tempfile.TemporaryDirectory(prefix="headwater-demo-") as folder, Screen(self._console) as screen:
            data_dir = Path(folder) / "data"
            started = time.monotonic()
            with running(data_dir, self._settings) as client:
                screen.say(f"1. Started Kafka, Valkey, API and controller in {time.monotonic() - started:.1f} s.")
                return self._run(client, data_dir, screen)

    def _run(self, client: httpx2.Client, data_dir: Path, screen: Screen) -> int:
        flow = self._create(client, screen)
        sink = self._deploy(client, flow["id"], screen)
        with reader(sink) as consumer:
            is_correct = self._write_and_read(client, flow, consumer, data_dir, screen)
        _checked(client.post(f"/api/v1/flow/{flow['id']}/teardown"))
        _checked(client.delete(f"/api/v1/flow/{flow['id']}"))
        is_correct &= self._prices(client, data_dir, screen)
        screen.say("8. Torn down: workers, access rules, credentials and topics are removed.")
        return 0 if is_correct else 1

    def _prices(self, client: httpx2.Client, data_dir: Path, screen: Screen) -> bool:
        config_id = _checked(client.post("/api/v1/flow", json=prices.BODY))["id"]
        _checked(client.post(f"/api/v1/flow/{config_id}/deploy"))
        prices.write_trades(self._write, data_dir)
        stats = prices.poll_statistics(client)
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
        stream = self._stream
        body = {
            "name": "Headwater demo",
            "pipeline_config": {
                "source": {"chain": stream.chain, "entity": stream.entity},
                "transforms": [
                    {"type": "redis_set_filter", "filter_expr": stream.filter_expr, "set_values": stream.watched},
                    {"type": "v8", "script": stream.script},
                ],
                "sinks": [{"type": "kafka", "name": "watched"}],
            },
        }
        flow: dict[str, Any] = _checked(client.post("/api/v1/flow", json=body))
        screen.say(
            f"2. Created configuration {flow['id']}: {stream.chain} {stream.entity}, filter on {len(stream.watched)} "
            "values, script."
        )
        return flow

    def _deploy(self, client: httpx2.Client, config_id: str, screen: Screen) -> dict[str, Any]:
        started = time.monotonic()
        sink: dict[str, Any] = _checked(client.post(f"/api/v1/flow/{config_id}/deploy"))["sinks"][0]
        screen.say(
            f"3. Deployed in {time.monotonic() - started:.2f} s: topic {sink['topic']}, user {sink['username']}."
        )
        return sink

    def _write_and_read(
        self, client: httpx2.Client, flow: dict[str, Any], consumer: Consumer, data_dir: Path, screen: Screen
    ) -> bool:
        """Write the records, change the filter meanwhile, and read the results.

        Returns whether the results are correct.
        """
        steady, burst = self._stream.lines[:STEADY_RECORDS], self._stream.lines[STEADY_RECORDS:]
        screen.say(f"4. Writing {len(steady):,} records at {STEADY_RATE:,} a second; these records are delivered:")
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(self._write_lines, data_dir, steady, STEADY_RATE)
            self._read_while(consumer, screen, lambda: self._sent < len(steady) // 2 and not writing.done())
            first_after_change = self._add_value(client, flow, screen)
            latencies = self._read_while(consumer, screen, lambda: not writing.done())
            writing.result()
        required, optional = self._stream.expected(first_after_change)
        if burst:
            self._burst(data_dir, consumer, screen, burst, required)
        self._read_while(consumer, screen, lambda: not self._is_complete(required), READ_WITHIN_S)
        screen.say(f"   End to end (appended to the stream → read from the topic), steady: {percentiles(latencies)}.")
        return self._verify(required, optional, screen)

    def _write_lines(self, data_dir: Path, lines: list[bytes], rate: float) -> None:
        """Write records to the stream, and count them in `_sent`."""

        def counted() -> Iterator[bytes]:
            for line in lines:
                self._sent += 1
                yield line

        self._write(data_dir, self._stream.chain, self._stream.entity, counted(), rate)

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
        """Write records as fast as possible, and read until all required results have arrived."""
        started = time.monotonic()
        self._write_lines(data_dir, lines, 0)
        written = time.monotonic()
        self._read_while(consumer, screen, lambda: not self._is_complete(required), READ_WITHIN_S)
        ended = time.monotonic()
        screen.say(
            f"6. Burst of {len(lines):,} records: written at {len(lines) / (written - started):,.0f} a second, "
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
                record_id = str(dict(message.headers() or [])["headwater-src"])
                if record_id in self._seen_record_ids:
                    continue
                self._seen_record_ids.add(record_id)
                latencies.append(time.time() * 1000 - message.timestamp()[1])
                record = json.loads(value)
                self._results[canonical(record)] += 1
                screen.show_record(latencies[-1], self._stream.summary(record), canonical(record))
        return latencies

    def _is_complete(self, required: list[str]) -> bool:
        """Whether all required results have been read."""
        return self._results.total() >= len(required) and not Counter(required) - self._results

    def _verify(self, required: list[str], optional: set[str], screen: Screen) -> bool:
        """Compare the results with the expected ones. Returns whether they are equal."""
        missing = Counter(required) - self._results
        extra = [result for result in (self._results - Counter(required)) if result not in optional]
        screen.say(
            f"   Verified against an independent computation: {len(required):,} of {len(self._stream.lines):,} records "
            f"should be delivered; {missing.total():,} are missing, {len(extra):,} are unexpected."
        )
        return not missing and not extra


@contextlib.contextmanager
def running(data_dir: Path, settings: Settings) -> Iterator[httpx2.Client]:
    """Run `headwater up` in a child process, which is stopped at the end.

    The process gets no variable HEADWATER_*, because such variables may name another installation.
    """
    port = _free_port()
    flags = ["--data-dir", str(data_dir), "--cache-dir", str(settings.cache_dir), "--port", str(port)]
    flags += ["--kafka-java", settings.kafka_java] if settings.kafka_java else []
    command = [sys.executable, "-m", "headwater", "up", *flags]
    environment = inherited_environment(*PROXIES)
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process,
    ):
        try:
            yield _wait_until_ready(process, data_dir, port, lambda: _last_lines(output))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_WITHIN_S)


def _last_lines(file: Any) -> str:
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
    """Open a consumer of a sink's topic, with the values of the deploy response.

    It reads the topic from its beginning.
    """
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


def _checked(response: httpx2.Response) -> Any:
    """Return the JSON of a response. Raises SetupError when it is an error."""
    if response.is_success:
        return response.json()
    request = response.request
    raise SetupError(f"{request.method} {request.url.path} returned {response.status_code}: {response.text}")
