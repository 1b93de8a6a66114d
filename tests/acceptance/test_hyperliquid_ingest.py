"""`headwater ingest hyperliquid` ingests every event of a node once, although it is killed."""

import contextlib
import json
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.acceptance.hyperliquid_node import FIRST_BLOCK, HyperliquidNode
from tests.acceptance.installation import HEADWATER, Installation, in_background
from tests.integration.ingest.hyperliquid_server import HyperliquidServer
from tests.support.ports import free_port
from tests.support.waiting import until

STREAMS = ("block", "trade", "fill", "order", "misc_event")
WITHIN_S = 90.0


class Streams:
    """Reads new committed records of all Hyperliquid streams."""

    def __init__(self, installation: Installation) -> None:
        settings = {"group.id": "reader", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer(installation.admin_config() | settings | {"log_level": 0})
        until(self._assigned, 30, "leaders of all partitions")
        self.found: dict[str, list[tuple[int, bytes, dict[str, Any]]]] = {stream: [] for stream in STREAMS}

    def _assigned(self) -> bool:
        known = self._consumer.list_topics(timeout=20).topics
        partitions = [
            TopicPartition(topic, partition)
            for topic in (f"stream.hyperliquid.{stream}" for stream in STREAMS)
            for partition in known[topic].partitions
        ]
        with contextlib.suppress(KafkaException):
            for one in partitions:
                one.offset = self._consumer.get_watermark_offsets(one, timeout=5)[1]
            self._consumer.assign(partitions)
            return True
        return False

    def total(self) -> int:
        return sum(map(len, self.found.values()))

    def more_than(self, count: int) -> bool:
        """Return whether there are more records than before."""
        self.poll()
        return self.total() > count

    def poll(self, timeout_s: float = 0.2) -> int:
        messages = self._consumer.consume(5000, timeout_s)
        for message in messages:
            assert message.error() is None, message.error()
            stream = str(message.topic()).rpartition(".")[2]
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            self.found[stream].append((message.partition() or 0, key, json.loads(value)))
        return len(messages)

    def read(self, count: int) -> None:
        """Read until there are `count` records, and a moment longer."""
        deadline = time.monotonic() + WITHIN_S
        while self.total() < count:
            assert time.monotonic() < deadline, {stream: len(found) for stream, found in self.found.items()}
            self.poll()
        while self.poll(1.0):
            pass

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def streams(installation: Installation) -> Iterator[Streams]:
    hyperliquid_streams = Streams(installation)
    yield hyperliquid_streams
    hyperliquid_streams.close()


class Ingest:
    """The ingest process, which tests kill and restart."""

    def __init__(self, installation: Installation, *arguments: str, log: Path) -> None:
        self._command = [*HEADWATER, "ingest", "hyperliquid", *arguments, "--data-dir", str(installation.data_dir)]
        self._environment = installation.environment
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text()
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(30)

    @contextlib.contextmanager
    def running(self) -> Iterator["Ingest"]:
        self.start()
        try:
            yield self
            assert self.stop() == 0, self._log.read_text()
        finally:
            assert self.process is not None
            self.process.kill()
            self.process.wait(10)


def check(streams: Streams, expected_records: dict[str, list[dict[str, Any]]]) -> None:
    """Assert that each expected record came once, and that partitions are in order."""
    for stream, expected in expected_records.items():
        found = streams.found[stream]
        order = {json.dumps(record, sort_keys=True): place for place, record in enumerate(expected)}
        places = [order[json.dumps(value, sort_keys=True)] for _, _, value in found]
        assert sorted(places) == list(range(len(expected))), stream
        for partition in range(4):
            mine = [place for place, (where, _, _) in zip(places, found, strict=True) if where == partition]
            assert mine == sorted(mine), f"{stream}/{partition}"


def metrics(port: int) -> dict[str, float]:
    lines = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "blocks"), [(3, 160), (20, 1200)])
def test_every_event_is_ingested_once_despite_kills(
    installation: Installation, streams: Streams, tmp_path: Path, kills: int, blocks: int
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    node = HyperliquidNode(tmp_path / "data", seed)
    port = free_port()
    ingest = Ingest(
        installation, "--node-data", str(node.root), "--from-start",
        "--name", f"kills-{seed}", "--metrics-port", str(port),
        log=tmp_path / "ingest.log",
    )  # fmt: skip
    node.write(20, 0)
    killed, written = threading.Event(), threading.Event()

    def write(stop: threading.Event) -> None:
        """Write blocks until after the last kill, so that there is progress after each kill."""
        while not stop.is_set() and (FIRST_BLOCK + blocks > node.next or not killed.is_set()):
            node.write(10, 0.002)
        written.set()

    with ingest.running(), in_background(write) as _:
        for _ in range(kills):
            until(partial(streams.more_than, streams.total()), 60, "progress")
            ingest.kill()
            ingest.start()
        killed.set()
        until(written.is_set, 120, "the end of writing")
        node.write(10, 0)  # otherwise nothing may be left for the process whose metrics are read
        streams.read(sum(map(len, node.expected.values())))
        series = metrics(port)
    check(streams, node.expected)
    labels = f'chain="hyperliquid",ingest="kills-{seed}"'
    assert series[f"headwater_ingest_gaps_total{{{labels}}}"] == 0
    assert series[f"headwater_ingest_lag_seconds{{{labels}}}"] > 0
    assert not [name for name in series if "skipped" in name and "total" in name]


@pytest.mark.slow
def test_the_first_start_begins_at_the_end_of_the_files(
    installation: Installation, streams: Streams, tmp_path: Path
) -> None:
    node = HyperliquidNode(tmp_path / "data", 1)
    node.write(30, 0)
    node.expected.clear()
    port = free_port()
    ingest = Ingest(
        installation, "--node-data", str(node.root), "--entity", "order", "--entity", "trade", "--name", "at-the-end",
        "--metrics-port", str(port), log=tmp_path / "ingest.log",
    )  # fmt: skip
    with ingest.running():
        until(lambda: "at the end" in (tmp_path / "ingest.log").read_text(), 30, "the beginning")
        node.write(20, 0)
        with (node.root / "node_order_statuses_by_block/hourly/20260430/22").open("ab") as file:
            file.write(b"no JSON\n")
        wanted = {stream: node.expected[stream] for stream in ("order", "trade")}
        streams.read(sum(map(len, wanted.values())))
        skipped = 'headwater_ingest_skipped_total{chain="hyperliquid",ingest="at-the-end",reason="unreadable line"}'
        until(lambda: metrics(port).get(skipped) == 1, 10, "the bad line")
    check(streams, wanted)
    assert not streams.found["fill"]
    log = (tmp_path / "ingest.log").read_text()
    assert "the ingest starts" in log
    assert "node_order_statuses_by_block/hourly/20260430/22" in log


@pytest.mark.slow
def test_trades_of_the_websocket_are_ingested_despite_kills(
    installation: Installation, streams: Streams, tmp_path: Path
) -> None:
    def trade(number: int) -> dict[str, Any]:
        return {"coin": "BTC", "side": "A", "px": "1.50", "sz": "2.0", "hash": "0x1", "tid": 7000 + number,
                "time": 1_777_582_000_000 + number // 3, "users": ["0xa", "0xb"]}  # fmt: skip

    with HyperliquidServer(snapshot=100).running() as server:
        ingest = Ingest(
            installation, "--ws", server.url, "--coin", "BTC", "--name", "socket", log=tmp_path / "ingest.log"
        )
        with ingest.running():
            until(lambda: bool(any("BTC" in coins for coins in list(server.subscribed.values()))), 30, "a subscription")
            for number in range(120):
                server.send_trades(trade(number), twice=number % 5 == 0)
                if number in (40, 80):
                    ingest.kill()
                    ingest.start()
                time.sleep(0.02)
            streams.read(120)
    check(
        streams,
        {"trade": [{**trade(number), "block_number": None, "trade_index": number % 3} for number in range(120)]},
    )
    assert "secret" not in (tmp_path / "ingest.log").read_text()


@pytest.mark.slow
def test_compressed_archives_with_missing_blocks(installation: Installation, streams: Streams, tmp_path: Path) -> None:
    """Compress each file of the node, and remove one block of fills."""
    node = HyperliquidNode(tmp_path / "data", 2)
    node.write(90, 0)
    missing = FIRST_BLOCK + 50
    for path in [path for path in node.root.rglob("*") if path.is_file()]:
        lines = path.read_bytes().splitlines(True)
        kept = [
            line for line in lines if b"fills" not in str(path).encode() or b'"block_number":%d' % missing not in line
        ]
        path.with_name(f"{path.name}.lz4").write_bytes(pa.compress(b"".join(kept), "lz4", asbytes=True))
        path.unlink()
    wanted = {
        stream: [one for one in records if stream not in ("fill", "trade") or one["block_number"] != missing]
        for stream, records in node.expected.items()
    }
    port, log = free_port(), tmp_path / "ingest.log"
    ingest = Ingest(
        installation,
        "--node-data",
        str(node.root),
        "--from-start",
        "--name",
        "archives",
        "--metrics-port",
        str(port),
        log=log,
    )
    with ingest.running():
        streams.read(sum(map(len, wanted.values())))
        gaps = metrics(port)['headwater_ingest_gaps_total{chain="hyperliquid",ingest="archives"}']
    check(streams, wanted)
    assert gaps == 1
    assert f"blocks {missing} to {missing} are missing" in log.read_text()


def test_invalid_combinations_of_flags(installation: Installation) -> None:
    done = installation.run("ingest", "hyperliquid", "--ws", "https://secret")
    assert done.returncode == 2
    assert "must be a URL that begins with ws://" in done.stderr
    assert "secret" not in done.stderr
