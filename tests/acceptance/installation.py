"""Runs a complete installation of Headwater, and uses it like a user.

It is used by the command line, HTTP and Kafka.

This module imports nothing of the package.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx2
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.ports import free_port
from tests.support.processes import descendants
from tests.support.waiting import until

HEADWATER = [sys.executable, "-m", "headwater"]
ROOT = Path(__file__).parents[2]
READY_WITHIN_S = 180.0
STOP_WITHIN_S = 60.0


@contextlib.contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread during the block.

    The event that it gets is set at the end of the block.
    """
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class ExternalServers:
    """External Kafka, Valkey and PostgreSQL servers.

    Attributes:
        settings: The environment variables with which Headwater uses the servers.
    """

    def __init__(self, directory: Path, advertised_host: str = "", kafka_properties: str = "") -> None:
        command = [sys.executable, "-m", "tests.support.external", str(directory), advertised_host]
        environment = {**os.environ, "HEADWATER_TEST_KAFKA_PROPERTIES": kafka_properties}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.settings: dict[str, str] = json.loads(self._process.stdout.readline())
        self.pid = self._process.pid

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        with self._process:
            assert self._process.wait(STOP_WITHIN_S) == 0


@dataclass
class Installation:
    """An installation in a data directory, which may use external servers."""

    data_dir: Path
    port: int = field(default_factory=free_port)
    flags: tuple[str, ...] = ()
    external: ExternalServers | None = None
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    _producer: Producer | None = None

    def start(self) -> None:
        log = (self.data_dir.parent / "up.log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [*HEADWATER, "up", "--data-dir", str(self.data_dir), "--port", str(self.port), *self.flags],
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        until(self._is_ready, READY_WITHIN_S, "readiness")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        with contextlib.suppress(httpx2.TransportError):
            return httpx2.get(f"{self.url}/readyz", timeout=5).status_code == 200
        return False

    def log(self) -> str:
        return (self.data_dir.parent / "up.log").read_text()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_WITHIN_S)

    def kill(self) -> list[int]:
        """Kill the parent process. Return the ids of its descendants."""
        assert self.process is not None
        below = [process.pid for process in descendants(self.process.pid)]
        self.process.kill()
        self.process.wait(10)
        return below

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command for this installation."""
        return {**os.environ, **(self.external.settings if self.external else {}), **self.variables}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        return (self.data_dir / "api-key").read_text().strip()

    def client(self, key: str | None = None) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers={"X-API-Key": key or self.key}, timeout=70)

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a `headwater` command on this data directory."""
        command = [*HEADWATER, *arguments, "--data-dir", str(self.data_dir)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=self.environment, **options)

    def workers(self) -> list[int]:
        return self.processes("worker_main --spec ")

    def workers_of(self, deployed: "Deployed") -> list[int]:
        """Return the workers of one deployment, whose id is in the path of their spec."""
        return self.processes(f"/{deployed.sink['username'].removeprefix('dep-')}/spec-")

    def sandboxes(self) -> list[int]:
        return self.processes("deno run")

    def processes(self, text: str) -> list[int]:
        """Return the processes of this installation whose command line contains `text`."""
        assert self.process is not None
        roots = [self.process.pid, *([self.external.pid] if self.external else [])]
        return [process.pid for root in roots for process in descendants(root) if text in process.command]

    def replay(self, chain: str, entity: str, path: Path, rate: int = 0) -> subprocess.Popen[bytes]:
        """Start `headwater replay` in the background."""
        command = [*HEADWATER, "replay", "--chain", chain, "--entity", entity, "--data-dir", str(self.data_dir)]
        return subprocess.Popen(
            [*command, "--rate", str(rate), str(path)], stdout=subprocess.DEVNULL, env=self.environment
        )

    def admin_config(self) -> dict[str, Any]:
        """Return librdkafka settings with the administrator's credentials."""
        if self.external:
            settings = self.external.settings
            return {
                "bootstrap.servers": settings["HEADWATER_KAFKA_BOOTSTRAP_SERVERS"],
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": settings["HEADWATER_KAFKA_USERNAME"],
                "sasl.password": settings["HEADWATER_KAFKA_PASSWORD"],
            }
        ports = json.loads((self.data_dir / "ports.json").read_text())
        return {
            "bootstrap.servers": f"127.0.0.1:{ports['kafka']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "headwater-admin",
            "sasl.password": (self.data_dir / "kafka" / "admin-password").read_text().strip(),
        }

    def feed(self, chain: str, entity: str, records: Iterable[dict[str, Any] | bytes]) -> None:
        """Write records to a stream like a user's producer, and wait until they are acknowledged."""
        if self._producer is None:
            self._producer = Producer(
                {**self.admin_config(), "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
            )
        for record in records:
            value = record if isinstance(record, bytes) else json.dumps(record).encode()
            key = "" if isinstance(record, bytes) else f"{record.get('transaction_hash')}:{record.get('log_index')}"
            self._producer.produce(f"stream.{chain}.{entity}", value, key)
        assert self._producer.flush(60) == 0

    def feed_without_keys(self, chain: str, entity: str, records: Iterable[dict[str, Any]]) -> None:
        """Write records without keys to a stream, and wait until they are acknowledged."""
        producer = Producer({**self.admin_config(), "log_level": 0})
        for record in records:
            producer.produce(f"stream.{chain}.{entity}", json.dumps(record).encode())
        assert producer.flush(60) == 0


class TopicRecord(NamedTuple):
    """A record that a consumer has read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: dict[str, str]

    @property
    def source(self) -> tuple[int, int, int]:
        """The partition and offset of the source record, and the index of this output."""
        _, partition, offset, index = self.headers["headwater-src"].rsplit("/", 3)
        return int(partition), int(offset), int(index)

    def json(self) -> Any:
        return json.loads(self.value)


def client_config(sink: dict[str, Any], group: str | None = None) -> dict[str, str | int | bool]:
    """Return librdkafka settings from a sink in a deploy response."""
    values = {
        "bootstrap.servers": sink["bootstrap_servers"],
        "security.protocol": sink["security_protocol"],
        "sasl.mechanism": sink["sasl_mechanism"],
        "sasl.username": sink["username"],
        "sasl.password": sink["password"],
        "group.id": group or sink["consumer_group"],
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    return {name: value for name, value in values.items() if value is not None}


class Reader:
    """Reads a topic from its beginning with the deployment's credentials."""

    def __init__(self, sink: dict[str, Any], topic: str | None = None) -> None:
        self._topic = topic or sink["topic"]
        self._consumer = Consumer(client_config(sink))
        partitions = self._consumer.list_topics(self._topic, timeout=20).topics[self._topic].partitions
        self._consumer.assign([TopicPartition(self._topic, number, 0) for number in partitions])
        self.records: list[TopicRecord] = []
        self.sources: set[str] = set()

    def poll(self, timeout_s: float = 0.1) -> list[TopicRecord]:
        new = [_read(message) for message in self._consumer.consume(1000, timeout_s)]
        self.records += new
        self.sources.update(record.headers["headwater-src"] for record in new)
        return new

    def read(self, count: int, within_s: float = 60.0) -> list[TopicRecord]:
        """Read until there are at least `count` distinct records. Return them without repeats."""
        deadline = time.monotonic() + within_s
        while len(self.sources) < count:
            assert time.monotonic() < deadline, f"{len(self.sources)} of {count} records after {within_s} s"
            self.poll()
        return without_repeats(self.records)

    def close(self) -> None:
        self._consumer.close()


def _read(message: Message) -> TopicRecord:
    error: KafkaError | None = message.error()
    assert error is None, error
    topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    pairs = cast("list[tuple[str, bytes]]", message.headers() or [])
    headers = {name: raw.decode() for name, raw in pairs}
    return TopicRecord(topic, partition, offset, message.key(), value or b"", headers)


def without_repeats(records: Iterable[TopicRecord]) -> list[TopicRecord]:
    """Return the first record with each `headwater-src`, in order."""
    first: dict[str, TopicRecord] = {}
    for record in records:
        first.setdefault(record.headers["headwater-src"], record)
    return list(first.values())


@contextlib.contextmanager
def reading(sink: dict[str, Any], topic: str | None = None) -> Iterator[Reader]:
    reader = Reader(sink, topic)
    try:
        yield reader
    finally:
        reader.close()


def pipeline(entity: str = "erc20_token_transfer", chain: str = "base", **config: Any) -> dict[str, Any]:
    """Return the body of a request that creates a configuration."""
    return {
        "name": config.pop("name", "test"),
        "pipeline_config": {
            "source": {"chain": chain, "entity": entity},
            "transforms": config.pop("transforms", []),
            "sinks": [{"type": "kafka", "name": "out"}],
            **config,
        },
    }


@dataclass
class Deployed:
    """A deployed configuration.

    Attributes:
        configuration: The response to the create request.
        deploy_response: The response to the deploy request.
    """

    id: str
    configuration: dict[str, Any]
    deploy_response: dict[str, Any]

    @property
    def sink(self) -> dict[str, Any]:
        sink: dict[str, Any] = self.deploy_response["sinks"][0]
        return sink

    def uid(self, position: int = 0) -> str:
        return str(self.configuration["pipeline_config"]["transforms"][position]["uid"])

    def filter_url(self, position: int = 0) -> str:
        return f"/api/v1/flow/{self.id}/transforms/{self.uid(position)}/filter-values"


def deploy(client: httpx2.Client, body: dict[str, Any]) -> Deployed:
    created = client.post("/api/v1/flow", json=body)
    assert created.status_code == 201, created.text
    flow = created.json()
    response = client.post(f"/api/v1/flow/{flow['id']}/deploy")
    assert response.status_code == 200, response.text
    return Deployed(flow["id"], flow, response.json())


@contextlib.contextmanager
def deployed(client: httpx2.Client, body: dict[str, Any]) -> Iterator[Deployed]:
    deployment = deploy(client, body)
    try:
        yield deployment
    finally:
        response = client.delete(f"/api/v1/flow/{deployment.id}")
        assert response.status_code == 200, response.text


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
