"""`headwater ingest solana` ingests each transaction once, although the process is killed."""

import json
import random
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.acceptance.installation import HEADWATER, Installation
from tests.support.solana_blocks import Chain, nonvoting
from tests.support.solana_node import KEY, Node
from tests.support.waiting import until

TOPIC = "stream.solana.nonvoting_transaction"


class Ingest:
    """Runs the command's processes one after the other.

    The URL is in the environment, as the docs advise.
    """

    def __init__(self, installation: Installation, node: Node, log: Path, *flags: str) -> None:
        self._command = [*HEADWATER, "ingest", "solana", "--data-dir", str(installation.data_dir), *flags]
        self._environment = {**installation.environment, "HEADWATER_SOLANA_RPC": node.url}
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)
        return self.process

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


@contextmanager
def ingest(installation: Installation, node: Node, log: Path, *flags: str) -> Iterator[Ingest]:
    running_ingest = Ingest(installation, node, log, *flags)
    try:
        yield running_ingest
    finally:
        running_ingest.stop()


def stored(installation: Installation, wanted: set[str]) -> list[list[str]]:
    """Return the expected signatures that are in the topic, by partition."""
    config = {**installation.admin_config(), "group.id": "test", "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer({**config, "enable.auto.commit": False, "enable.partition.eof": True})
    partitions = consumer.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in partitions])
    found: defaultdict[int, list[str]] = defaultdict(list)
    at_end = 0
    while at_end < len(partitions):
        message = consumer.poll(20)
        assert message is not None
        if message.error():
            at_end += 1
            continue
        record: Any = json.loads(message.value() or b"")
        assert message.key() == f"solana:{record['txn_id']}".encode()
        if record["txn_id"] in wanted:
            found[message.partition() or 0].append(record["txn_id"])
    consumer.close()
    return list(found.values())


def check(installation: Installation, expected: list[str]) -> None:
    """Assert that each transaction came once, and in the chain's order within each partition."""
    place = {signature: number for number, signature in enumerate(expected)}
    found = stored(installation, set(expected))
    assert sorted(signature for partition in found for signature in partition) == sorted(expected)
    for partition in found:
        assert partition == sorted(partition, key=place.__getitem__)


@pytest.mark.slow
def test_a_range_is_ingested_despite_faults_and_kills(installation: Installation, tmp_path: Path) -> None:
    blocks = Chain(11).blocks(5_000, 5_150)
    faults = {"429": 0.01, "503": 0.03, "cut": 0.03, "nonsense": 0.02, "behind": 0.05}
    draw = random.Random(1)
    with Node(blocks, faults=faults).serving() as node:
        node.slow_s = 0.03
        flags = ("--log-level", "debug", "--from-slot", "5000", "--to-slot", "5150", "--parallel", "2")
        with ingest(installation, node, tmp_path / "log", *flags) as running_ingest:
            for _ in range(2):
                process, before = running_ingest.start(), node.calls["getBlock"]
                wanted = before + draw.randrange(10, 50)
                until(lambda: node.calls["getBlock"] >= wanted or process.poll() is not None, what="blocks")  # noqa: B023
                assert process.poll() is None, running_ingest.log.read_text()
                process.kill()
                process.wait(10)
            assert running_ingest.start().wait(120) == 0, running_ingest.log.read_text()
        assert KEY not in running_ingest.log.read_text()
    assert set(node.met) == set(faults)
    check(installation, nonvoting(blocks))


@pytest.mark.slow
def test_the_ingest_follows_the_head_and_resumes_there(installation: Installation, tmp_path: Path) -> None:
    blocks = Chain(12).blocks(7_000, 7_060)
    slots = sorted(blocks)
    names = ("--name", "head", "--commitment", "confirmed", "--encoding", "base64", "--poll-s", "0.05")
    with (
        Node(blocks, newest=slots[10]).serving() as node,
        ingest(installation, node, tmp_path / "log", *names) as running_ingest,
    ):
        for newest in (slots[20], slots[-1]):
            process = running_ingest.start()
            asked = node.calls["getSlot"]
            until(lambda: node.calls["getSlot"] > asked + 1, what="the first look at the head")  # noqa: B023
            command = " ".join(psutil.Process(process.pid).cmdline())
            assert "solana" in command
            assert KEY not in command
            node.newest = newest
            new = nonvoting({slot: blocks[slot] for slot in slots[10:] if slot <= newest})
            until(lambda: sum(map(len, stored(installation, set(new)))) == len(new), what="the records")  # noqa: B023
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, running_ingest.log.read_text()
            node.newest = newest
    check(installation, nonvoting({slot: blocks[slot] for slot in slots[10:]}))
