"""What a worker that only copies does per second, beside bare librdkafka copies: `python benches/worker_copy.py`.

"values" copies values alone; "headers" writes what the worker writes: key, time, partition and two headers; "once" is the
worker that delivers exactly once. All read and write the same real broker, turn about. Rates are between the broker's first and last append; CPU is that
of the copying process alone, between the same moments. The outputs are compared record by record.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.brokers.client import ClientErrors, admin_settings, consumer_settings, producer_settings
from headwater.brokers.embedded import EmbeddedKafka
from headwater.model.flow import DeliveryMode
from headwater.model.worker import KafkaAccess, SinkSpec, WorkerSpec
from headwater.telemetry import configure_logging

RECORD_BYTES = 850
PARTITIONS = 4
SOURCE, DEAD, GROUP = "stream", "dlq", "wrk"
CACHE_DIR = Path("~/.cache/headwater")
SAMPLE_S = 0.02
WAIT_S = 120.0


@dataclass(frozen=True)
class Result:
    """One run. cpu_s: CPU seconds per million records."""

    per_s: float
    cpu_s: float


def make_records(count: int) -> Iterator[bytes]:
    """Transfers of 850 bytes, half of it random hex."""
    draw = random.Random(7)
    for number in range(count):
        head = json.dumps({"n": number, "hash": draw.randbytes(200).hex(), "chain": "polygon", "pad": ""})
        yield head.replace('"pad": ""', f'"pad": "{"x" * (RECORD_BYTES - len(head))}"').encode()


@contextmanager
def broker(folder: Path) -> Iterator[KafkaAccess]:
    """A broker of its own; its administrator's access."""
    embedded = EmbeddedKafka(folder, CACHE_DIR)
    embedded.prepare()
    child = embedded.start()
    try:
        embedded.wait_ready(child)
        yield embedded.access()
    finally:
        child.stop(15)


def create(access: KafkaAccess, topic: str) -> None:
    """A topic that stamps the time of the append."""
    admin = AdminClient(admin_settings(access, ClientErrors(access)))
    config = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(WAIT_S)
    while not all(p.leader >= 0 for p in admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions.values()):
        time.sleep(SAMPLE_S)


def fill(access: KafkaAccess, records: list[bytes]) -> None:
    """The source topic."""
    create(access, SOURCE)
    producer = Producer(producer_settings(access, ClientErrors(access), 50))
    for number, value in enumerate(records):
        while True:
            try:
                producer.produce(SOURCE, value, b"%d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(WAIT_S) == 0


def bare_copy(access: KafkaAccess, target: str, *, with_headers: bool) -> None:
    """A reference: a flush and a commit every two seconds, no care for failures."""
    consumer = Consumer(consumer_settings(access, ClientErrors(access), "bare"))
    producer = Producer(
        admin_settings(access, ClientErrors(access))
        | {"compression.type": "lz4", "linger.ms": 20, "batch.size": 262_144, "acks": "all"}
        | {"queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 262_144}
    )
    consumer.assign([TopicPartition(SOURCE, p, 0) for p in range(PARTITIONS)])
    checkpoint = time.monotonic()
    while True:
        for message in consumer.consume(2000, 0.1):
            row = everything(message) if with_headers else {"value": message.value()}
            while True:
                try:
                    producer.produce(target, **row)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
        if time.monotonic() - checkpoint > 2:
            producer.flush()
            consumer.commit(asynchronous=True)
            checkpoint = time.monotonic()


def everything(message: Message) -> dict[str, Any]:
    """A record as the worker would write it."""
    origin = f"{SOURCE}/{message.partition()}/{message.offset()}/0".encode()
    return {
        "value": message.value(),
        "key": message.key(),
        "partition": message.partition(),
        "timestamp": message.timestamp()[1],
        "headers": [("headwater-src", origin), ("headwater-cfg", b"1")],
    }


def worker_command(access: KafkaAccess, target: str, folder: Path, delivery: DeliveryMode) -> list[str]:
    """A worker without transforms, whose group begins at the first record."""
    group = f"{GROUP}-{target}"
    consumer = Consumer(consumer_settings(access, ClientErrors(access), group))
    consumer.commit(offsets=[TopicPartition(SOURCE, p, 0) for p in range(PARTITIONS)], asynchronous=False)
    consumer.close()
    spec = WorkerSpec(
        deployment_id="d",
        config_id=target,
        owner="bench",
        revision=1,
        source_topic=SOURCE,
        source_group=group,
        transforms=[],
        sinks=[SinkSpec(uid="s", name="out", type="kafka", topic=target)],
        dead_letter_topic=DEAD,
        kafka=access,
        redis_url="redis://127.0.0.1:1",
        delivery=delivery,
    )
    path = folder / f"{target}.json"
    path.write_text(spec.model_dump_json())
    return [sys.executable, "-m", "headwater", "worker", "--spec", str(path)]


def bare_command(access: KafkaAccess, target: str, who: str) -> list[str]:
    """This file as another process."""
    return [sys.executable, __file__, "bare", access.model_dump_json(), target, who]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(pid: int, samples: list[tuple[float, float]], stop: threading.Event) -> None:
    """Note the wall clock and the CPU time until told to stop."""
    while not stop.wait(SAMPLE_S):
        samples.append((time.time(), cpu_seconds(pid)))


def outputs(access: KafkaAccess, target: str, count: int) -> list[Message]:
    """The first `count` records of the target; waits for them."""
    consumer = Consumer(consumer_settings(access, ClientErrors(access), "check"))
    consumer.assign([TopicPartition(target, p, 0) for p in range(PARTITIONS)])
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        found += consumer.consume(10_000, 0.5)
    consumer.close()
    return found


def wait_until_copied(access: KafkaAccess, target: str, count: int) -> None:
    """Look at the end offsets now and then: a reader would take the copy's CPU."""
    consumer = Consumer(consumer_settings(access, ClientErrors(access), "ends"))
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        marks = [consumer.get_watermark_offsets(TopicPartition(target, p), WAIT_S) for p in range(PARTITIONS)]
        if sum(high for _, high in filter(None, marks)) >= count:
            break
        time.sleep(0.25)
    consumer.close()


def check(messages: list[Message], records: list[bytes], who: str) -> None:
    """Every record once; under its key, partition and origin, in order, where these are copied."""
    assert sorted(m.value() or b"" for m in messages) == sorted(records)
    if who == "values":
        return
    seen = [0] * PARTITIONS
    for message in messages:
        partition, number = message.partition() or 0, int(message.key() or b"-1")
        origin = dict(message.headers() or [])["headwater-src"]
        assert message.value() == records[number]
        assert (number % PARTITIONS, number // PARTITIONS) == (partition, seen[partition])
        assert origin == f"{SOURCE}/{partition}/{seen[partition]}/0".encode()
        seen[partition] += 1


def run(access: KafkaAccess, target: str, command: list[str], records: list[bytes], who: str) -> Result:
    """One copy from start to end."""
    samples: list[tuple[float, float]] = []
    stop = threading.Event()
    with subprocess.Popen(command) as process:
        watcher = threading.Thread(target=watch, args=(process.pid, samples, stop))
        watcher.start()
        try:
            wait_until_copied(access, target, len(records))
            time.sleep(5 * SAMPLE_S)
        finally:
            stop.set()
            watcher.join()
            process.terminate()
    messages = outputs(access, target, len(records))
    check(messages, records, who)
    stamps = [m.timestamp()[1] / 1000 for m in messages]
    begin, end = min(stamps), max(stamps)
    cpu = [next(used for at, used in samples if at >= moment) for moment in (begin, end)]
    return Result(len(records) / (end - begin), (cpu[1] - cpu[0]) * 1e6 / len(records))


def main(count: int = 400_000, rounds: int = 3) -> None:
    """Copy in turns and print the medians and their ratio."""
    records = list(make_records(count))
    results: dict[str, list[Result]] = {"values": [], "headers": [], "worker": [], "once": []}
    modes: dict[str, DeliveryMode] = {"worker": "at_least_once", "once": "exactly_once"}
    with tempfile.TemporaryDirectory() as name, broker(Path(name)) as access:
        fill(access, records)
        create(access, DEAD)
        for number in range(rounds):
            for who, runs in results.items():
                target = f"{who}-{number}"
                create(access, target)
                if who in modes:
                    command = worker_command(access, target, Path(name), modes[who])
                else:
                    command = bare_command(access, target, who)
                runs.append(run(access, target, command, records, who))
                typer.echo(f"{who:8} {runs[-1].per_s:9,.0f} records/s {runs[-1].cpu_s:6.2f} CPU s per million")
    rate = {who: statistics.median(run.per_s for run in runs) for who, runs in results.items()}
    cpu = {who: statistics.median(run.cpu_s for run in runs) for who, runs in results.items()}
    for mine, other in (("worker", "values"), ("worker", "headers"), ("once", "worker")):
        typer.echo(f"{mine} / {other}: rate {rate[mine] / rate[other]:.2f}, CPU {cpu[mine] / cpu[other]:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["bare"]:
        bare_copy(KafkaAccess.model_validate_json(sys.argv[2]), sys.argv[3], with_headers=sys.argv[4] == "headers")
    else:
        configure_logging("info")
        typer.run(main)
