"""Runs real worker processes with a real broker, and reads their heartbeats."""

import contextlib
import json
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from confluent_kafka import Message, TopicPartition

from headwater.app import build_worker
from headwater.children import Child, spawn
from headwater.model.flow import DeliveryMode
from headwater.model.record import Headers
from headwater.model.transforms import TransformConfig
from headwater.model.worker_protocol import JOIN, Heartbeat
from headwater.model.worker_spec import SinkSpec, WorkerSpec
from tests.support.kafka import KafkaServer
from tests.support.waiting import until

PARTITIONS = 4
WAIT_S = 60.0
NO_STORE = "redis://127.0.0.1:1"


class Pipeline:
    """The topics, the group and the spec of one deployment."""

    def __init__(
        self,
        kafka: KafkaServer,
        folder: Path,
        transforms: Sequence[TransformConfig] = (),
        redis_url: str = NO_STORE,
        sink_config: dict[str, str] | None = None,
        delivery: DeliveryMode = "at_least_once",
    ) -> None:
        self.kafka = kafka
        self.source = kafka.create_topic(kafka.unique("stream"), PARTITIONS)
        self.sink = kafka.create_topic(kafka.unique("sink"), PARTITIONS, sink_config)
        self.dead = kafka.create_topic(kafka.unique("dlq"), PARTITIONS)
        self.group = kafka.unique("wrk")
        self.spec = WorkerSpec(
            deployment_id="d1",
            config_id=kafka.unique("c"),
            owner="alice",
            revision=3,
            source_topic=self.source,
            source_group=self.group,
            transforms=list(transforms),
            sinks=[SinkSpec(uid="s1", name="out", type="kafka", topic=self.sink)],
            dead_letter_topic=self.dead,
            kafka=kafka.access,
            redis_url=redis_url,
            delivery=delivery,
        )
        self._path = folder / "spec-hash1.json"
        self._log = folder / "worker.log"
        kafka.commit(self.group, self.source, dict.fromkeys(range(PARTITIONS), 0))

    def feed(self, records: Sequence[Any]) -> None:
        """Write JSON records to the source topic, spread over its partitions."""
        for partition in range(PARTITIONS):
            mine = [json.dumps(r, separators=(",", ":")).encode() for r in records[partition::PARTITIONS]]
            self.kafka.produce(self.source, mine, partition=partition)

    @contextlib.contextmanager
    def worker(self, slot: int = 0) -> Iterator["WorkerProcess"]:
        """Start a worker, and kill it at the end of the block if it still runs."""
        self._path.write_text(self.spec.model_dump_json())
        process = WorkerProcess(self._path, slot, self._log)
        try:
            yield process
        finally:
            process.kill()

    def committed(self) -> int:
        """Return how many records the group has committed on all partitions."""
        with self.kafka.consumer(group=self.group) as consumer:
            partitions = consumer.committed([TopicPartition(self.source, p) for p in range(PARTITIONS)], WAIT_S)
        return sum(p.offset for p in partitions)

    def wait_committed(self, count: int) -> None:
        """Wait until the group has committed `count` records."""
        until(lambda: self.committed() >= count, what=f"{count} committed records; the worker's log:\n{self.log()}")

    def sent(self, topic: str | None = None) -> int:
        """Return the number of records on the sink topic, or on another topic of the pipeline."""
        return sum(self.kafka.end_offsets(topic or self.sink).values())

    @contextlib.contextmanager
    def watch_sink(self) -> Iterator[Callable[[], None]]:
        """Yield a function that waits for the next record on the sink topic."""
        ends = self.kafka.end_offsets(self.sink)
        with self.kafka.consumer() as consumer:
            consumer.assign([TopicPartition(self.sink, p, end) for p, end in ends.items()])
            yield lambda: until(lambda: consumer.poll(0.05) is not None, what=f"output; log:\n{self.log()}")

    def records(self, topic: str | None = None) -> list[Message]:
        """Return all records of the sink topic, sorted by partition and offset."""
        return self.kafka.read_all(topic or self.sink)

    def log(self) -> str:
        """Return the workers' log."""
        return self._log.read_text() if self._log.exists() else ""


class WorkerProcess:
    """A worker process as an orchestrator starts it, and its heartbeats."""

    def __init__(self, spec: Path, slot: int, log: Path) -> None:
        self._probe, theirs = socket.socketpair()
        self._probe.send(JOIN)
        self._unread = b""
        self.beats: list[Heartbeat] = []
        with theirs, log.open("ab") as output:
            command = build_worker.command(spec, slot, theirs.fileno())
            self._child: Child = spawn(command, stdout=output, stderr=output, pass_fds=[theirs.fileno()])
        self._log = log
        self.pid = self._child.pid

    def wait(self, matches: Callable[[Heartbeat], bool]) -> Heartbeat:
        """Return the next heartbeat that matches."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for beat in self._read():
                if matches(beat):
                    return beat
        raise AssertionError(f"no such heartbeat; the last ones: {self.beats[-3:]}; log:\n{self._log.read_text()}")

    def ready(self) -> "WorkerProcess":
        """Wait until the worker is ready."""
        self.wait(lambda beat: beat.state == "ready")
        return self

    def _read(self) -> list[Heartbeat]:
        select.select([self._probe], [], [], 1.0)
        with contextlib.suppress(BlockingIOError):
            self._unread += self._probe.recv(1 << 16, socket.MSG_DONTWAIT)
        *lines, self._unread = self._unread.split(b"\n")
        beats = [Heartbeat.model_validate_json(line) for line in lines]
        self.beats += beats
        return beats

    def kill(self) -> None:
        """Kill the worker if it still runs."""
        self._child.send(signal.SIGKILL)
        self._child.wait(WAIT_S)
        self._probe.close()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the worker."""
        self._child.send(number)

    def terminate(self) -> int | None:
        """Send SIGTERM, and return the exit status."""
        self._child.send(signal.SIGTERM)
        return self._child.wait(WAIT_S)

    def exit_status(self) -> int | None:
        """Wait for the end of the process, and return its exit status."""
        return self._child.wait(WAIT_S)


def origins(records: Sequence[Message]) -> list[str]:
    """Return the `headwater-src` of each record."""
    return [headers(m)["headwater-src"] for m in records]


def headers(record: Message) -> dict[str, str]:
    """Return the record's headers as strings."""
    return {name: bytes(value or b"").decode() for name, value in cast("Headers", record.headers() or [])}


def check_copy(pipeline: Pipeline, expected: Sequence[Any], *, repeats: bool) -> int:
    """Assert that every record arrived in order and that repeats have the same origin.

    Return the number of repeats.
    """
    records = pipeline.records()
    first: dict[str, Message] = {}
    for origin, record in zip(origins(records), records, strict=True):
        original = first.setdefault(origin, record)
        assert original.value() == record.value(), "a repeat has the same bytes"
    assert sorted(json.loads(m.value() or b"")["n"] for m in first.values()) == sorted(r["n"] for r in expected)
    for partition in range(PARTITIONS):
        offsets = [int(o.split("/")[2]) for o, m in first.items() if m.partition() == partition]
        assert offsets == sorted(offsets), "an inversion"
        assert all(o.split("/")[1] == str(partition) for o, m in first.items() if m.partition() == partition)
    assert repeats or len(first) == len(records)
    return len(records) - len(first)
