"""Nothing is lost, whatever is killed; repeats carry a repeated `headwater-src`; everything comes back by itself."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.stack import (
    Deployed,
    Read,
    Stack,
    alive,
    deploy,
    deployed,
    kill,
    pipeline,
    reading,
    unrepeated,
    until,
)

SCRIPT = "function process(r) { return {n: r.n, doubled: BigInt(r.amount) * 2n}; }"
BIG = 2**200


def numbered(count: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Records whose key spreads them over the partitions."""
    for n in range(first, first + count):
        yield {"n": n, "amount": BIG + n, "transaction_hash": f"0x{n:064x}", "log_index": 0}


def write(path: Path, records: Iterator[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return path


def assert_lossless(read: Sequence[Read], expected: range) -> None:
    """Every number once after dropping repeats, in order per partition, each result right."""
    records = unrepeated(read)
    assert sorted(record.json()["n"] for record in records) == list(expected)
    assert all(record.json()["doubled"] == 2 * (BIG + record.json()["n"]) for record in records)
    last: dict[int, int] = {}
    for record in records:
        partition, offset, _ = record.source
        assert partition == record.partition
        assert offset > last.get(partition, -1)
        last[partition] = offset


def have_all(expected: range) -> Any:
    return lambda records: len({record.json()["n"] for record in records}) >= len(expected)


class TestWorkerKilledRightAfterDeploy:
    """The start offsets are pinned before the answer: what is sent after it is processed, come what may."""

    @pytest.mark.timeout(300)
    def test_twenty_times(self, stack: Stack, client: httpx.Client) -> None:
        per_round = 200
        for round_number in range(20):
            made = deploy(client, pipeline(transforms=[{"type": "v8", "script": SCRIPT}]))
            mine = stack.workers()
            first = round_number * per_round
            with tempfile.TemporaryDirectory() as folder:
                path = write(Path(folder) / "records.jsonl", numbered(per_round, first))
                feeding = stack.replay("base", "erc20_token_transfer", path, rate=2000)
                kill(mine)
                expected = range(first, first + per_round)
                with reading(made.sink) as reader:
                    read = reader.read_until(have_all(expected))
                assert feeding.wait(60) == 0
            assert_lossless(read, expected)
            assert client.delete(f"/api/v1/flow/{made.id}").status_code == 200


class TestKillsDuringALongRun:
    """100,000 records; the worker, its V8 child and then the parent of everything are killed on the way."""

    COUNT = 100_000

    @pytest.mark.timeout(300)
    def test_nothing_is_lost_and_all_comes_back(self, own_stack: Stack, tmp_path: Path) -> None:
        own_stack.start()
        with own_stack.client() as client:
            made = deploy(client, pipeline(transforms=[{"type": "v8", "script": SCRIPT}]))
        path = write(tmp_path / "records.jsonl", numbered(self.COUNT))
        own_stack.replay("base", "erc20_token_transfer", path, rate=20_000)
        with reading(made.sink) as reader:
            reader.read_until(lambda read: len(read) > 5_000)
            kill(own_stack.sandboxes()[:1])
            reader.read_until(lambda read: len(read) > 20_000)
            kill(own_stack.workers())
            reader.read_until(lambda read: len(unrepeated(read)) > 40_000)
            before_the_kill = list(reader.records)
        orphans = own_stack.kill()
        until(lambda: not any(alive(pid) for pid in orphans), what="the end of all children")
        self.resume(own_stack, made, path, before_the_kill)

    def resume(self, stack: Stack, made: Deployed, path: Path, before: list[Read]) -> None:
        """Start again: the deployment resumes by itself. The feeder died with the broker, so all is sent again."""
        stack.start()
        until(lambda: len(stack.workers()) == 1, what="the worker's return")
        stack.replay("base", "erc20_token_transfer", path).wait(120)
        expected = range(self.COUNT)
        with reading(made.sink) as reader:
            after = reader.read_until(have_all(expected), within_s=120)
        assert {r.headers["headwater-src"] for r in before} <= {r.headers["headwater-src"] for r in after}
        self.check(after)
        with stack.client() as client:
            health = client.get(f"/api/v1/flow/{made.id}/deploy/stats").json()["workers_health"]
            assert health["healthy_workers"] == 1

    def check(self, read: Sequence[Read]) -> None:
        """Each *source record* has its one result; a record that was fed twice has two source positions."""
        records = unrepeated(read)
        assert {record.json()["n"] for record in records} == set(range(self.COUNT))
        assert all(record.json()["doubled"] == 2 * (BIG + record.json()["n"]) for record in records)
        last: dict[int, int] = {}
        for record in records:
            partition, offset, _ = record.source
            assert offset > last.get(partition, -1)
            last[partition] = offset


class TestHealth:
    def test_a_killed_worker_shows_and_comes_back(self, stack: Stack, client: httpx.Client) -> None:
        with deployed(client, pipeline()) as made:
            kill(stack.workers())
            url = f"/api/v1/flow/{made.id}/deploy/stats"

            def back() -> bool:
                health = client.get(url).json()["workers_health"]
                return bool(health["healthy_workers"] == 1 and health["workers"][0]["restart_count"] == 1)

            until(back, what="the worker's return in deploy/stats")
