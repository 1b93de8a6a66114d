"""A whole Headwater as a user has it: `headwater up` in a process of its own, HTTP, and Kafka by credentials.

Nothing of the package is imported here: what these tests know is the interface and the command line.
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
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `work` in a thread beside the block; it ends when its event is set, at the end of the block."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class External:
    """Kafka, Valkey and PostgreSQL outside of Headwater. settings: the variables that name them."""

    def __init__(self, directory: Path, advertised_host: str = "") -> None:
        command = [sys.executable, "-m", "tests.support.external", str(directory), advertised_host]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.settings: dict[str, str] = json.loads(self._process.stdout.readline())
        self.pid = self._process.pid

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        with self._process:
            assert self._process.wait(STOP_WITHIN_S) == 0


@dataclass
class Stack:
    """One installation in its data directory; with external parts, when it is given some."""

    data_dir: Path
    port: int = field(default_factory=free_port)
    flags: tuple[str, ...] = ()
    external: External | None = None
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
        """SIGKILL of the parent; returns what lived below it."""
        assert self.process is not None
        below = [process.pid for process in descendants(self.process.pid)]
        self.process.kill()
        self.process.wait(10)
        return below

    @property
    def environment(self) -> dict[str, str]:
        """The variables of every command against this installation."""
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
        """A `headwater` command against this data directory."""
        command = [*HEADWATER, *arguments, "--data-dir", str(self.data_dir)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=self.environment, **options)

    def workers(self) -> list[int]:
        return self.below("worker_main --spec ")

    def workers_of(self, made: "Deployed") -> list[int]:
        """The workers of one deployment: its id is in the path of their spec."""
        return self.below(f"/{made.sink['username'].removeprefix('dep-')}/spec-")

    def sandboxes(self) -> list[int]:
        return self.below("deno run")

    def below(self, text: str) -> list[int]:
        """Processes of this installation whose command line has `text` in it."""
        assert self.process is not None
        roots = [self.process.pid, *([self.external.pid] if self.external else [])]
        return [process.pid for root in roots for process in descendants(root) if text in process.command]

    def replay(self, chain: str, entity: str, path: Path, rate: int = 0) -> subprocess.Popen[bytes]:
        """`headwater replay` in the background."""
        command = [*HEADWATER, "replay", "--chain", chain, "--entity", entity, "--data-dir", str(self.data_dir)]
        return subprocess.Popen(
            [*command, "--rate", str(rate), str(path)], stdout=subprocess.DEVNULL, env=self.environment
        )

    def admin_config(self) -> dict[str, Any]:
        """librdkafka settings of the broker's administrator: from the settings, or from the data directory."""
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
        """Write records to a stream, as a feeder of the user's own would, and wait until the broker has them all."""
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
        """The same for records that have no key."""
        producer = Producer({**self.admin_config(), "log_level": 0})
        for record in records:
            producer.produce(f"stream.{chain}.{entity}", json.dumps(record).encode())
        assert producer.flush(60) == 0


class Read(NamedTuple):
    """A record as a user reads it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: dict[str, str]

    @property
    def source(self) -> tuple[int, int, int]:
        """Partition, offset and output number of the source record."""
        _, partition, offset, index = self.headers["headwater-src"].rsplit("/", 3)
        return int(partition), int(offset), int(index)

    def json(self) -> Any:
        return json.loads(self.value)


def client_config(sink: dict[str, Any], group: str | None = None) -> dict[str, str | int | bool]:
    """librdkafka settings from the sink of a deploy answer."""
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
    """Reads a topic from its beginning, as the deployment's user."""

    def __init__(self, sink: dict[str, Any], topic: str | None = None) -> None:
        self._topic = topic or sink["topic"]
        self._consumer = Consumer(client_config(sink))
        partitions = self._consumer.list_topics(self._topic, timeout=20).topics[self._topic].partitions
        self._consumer.assign([TopicPartition(self._topic, number, 0) for number in partitions])
        self.records: list[Read] = []
        self.sources: set[str] = set()

    def poll(self, timeout_s: float = 0.1) -> list[Read]:
        new = [_read(message) for message in self._consumer.consume(1000, timeout_s)]
        self.records += new
        self.sources.update(record.headers["headwater-src"] for record in new)
        return new

    def read(self, count: int, within_s: float = 60.0) -> list[Read]:
        """At least `count` records, repeats dropped."""
        deadline = time.monotonic() + within_s
        while len(self.sources) < count:
            assert time.monotonic() < deadline, f"{len(self.sources)} of {count} records after {within_s} s"
            self.poll()
        return unrepeated(self.records)

    def close(self) -> None:
        self._consumer.close()


def _read(message: Message) -> Read:
    error: KafkaError | None = message.error()
    assert error is None, error
    topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    pairs = cast("list[tuple[str, bytes]]", message.headers() or [])
    headers = {name: raw.decode() for name, raw in pairs}
    return Read(topic, partition, offset, message.key(), value or b"", headers)


def unrepeated(records: Iterable[Read]) -> list[Read]:
    """First occurrence of each `headwater-src`, in order."""
    seen: dict[str, Read] = {}
    for record in records:
        seen.setdefault(record.headers["headwater-src"], record)
    return list(seen.values())


@contextlib.contextmanager
def reading(sink: dict[str, Any], topic: str | None = None) -> Iterator[Reader]:
    reader = Reader(sink, topic)
    try:
        yield reader
    finally:
        reader.close()


def pipeline(entity: str = "erc20_token_transfer", chain: str = "base", **config: Any) -> dict[str, Any]:
    """A create body."""
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
    """A configuration that was created and deployed."""

    id: str
    flow: dict[str, Any]
    answer: dict[str, Any]

    @property
    def sink(self) -> dict[str, Any]:
        sink: dict[str, Any] = self.answer["sinks"][0]
        return sink

    def uid(self, position: int = 0) -> str:
        return str(self.flow["pipeline_config"]["transforms"][position]["uid"])

    def filter_url(self, position: int = 0) -> str:
        return f"/api/v1/flow/{self.id}/transforms/{self.uid(position)}/filter-values"


def deploy(client: httpx2.Client, body: dict[str, Any]) -> Deployed:
    created = client.post("/api/v1/flow", json=body)
    assert created.status_code == 201, created.text
    flow = created.json()
    answer = client.post(f"/api/v1/flow/{flow['id']}/deploy")
    assert answer.status_code == 200, answer.text
    return Deployed(flow["id"], flow, answer.json())


@contextlib.contextmanager
def deployed(client: httpx2.Client, body: dict[str, Any]) -> Iterator[Deployed]:
    made = deploy(client, body)
    try:
        yield made
    finally:
        gone = client.delete(f"/api/v1/flow/{made.id}")
        assert gone.status_code == 200, gone.text


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
