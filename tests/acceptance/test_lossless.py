"""No output is lost when processes are killed.

Repeats have the same `headwater-src`, and all processes restart.
"""

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.installation import Installation, TopicRecord, deploy, deployed, kill, pipeline, reading
from tests.support.processes import alive, suspended
from tests.support.waiting import until

SCRIPT = "function process(r) { return {n: r.n, doubled: BigInt(r.amount) * 2n}; }"
BIG = 2**200
_LENGTHY = [pytest.mark.slow, pytest.mark.timeout(300)]


def numbered(count: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield numbered records whose keys are spread over the partitions."""
    for n in range(first, first + count):
        yield {"n": n, "amount": BIG + n, "transaction_hash": f"0x{n:064x}", "log_index": 0}


def write(path: Path, records: Iterator[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return path


def assert_lossless(records: Sequence[TopicRecord], expected: range) -> None:
    """Assert that records without repeats have every number once, with correct results.

    Each partition must be in order.
    """
    results = [record.json() for record in records]
    assert sorted(result["n"] for result in results) == list(expected)
    assert all(result["doubled"] == 2 * (BIG + result["n"]) for result in results)
    last: dict[int, int] = {}
    for record in records:
        partition, offset, _ = record.source
        assert partition == record.partition
        assert offset > last.get(partition, -1)
        last[partition] = offset


def all_gone(pids: Sequence[int]) -> bool:
    return not any(map(alive, pids))


def healthy(client: httpx2.Client, config_id: str) -> bool:
    """Return whether the API is ready and shows one healthy worker."""
    try:
        ready = client.get("/readyz").status_code == 200
        stats = client.get(f"/api/v1/flow/{config_id}/deploy/stats")
    except httpx2.TransportError:
        return False  # the connection may have belonged to a killed API process
    health = stats.json()["workers_health"]
    return ready and (health["total_workers"], health["healthy_workers"]) == (1, 1)


class TestWorkerKilledRightAfterDeploy:
    """All records that are sent after a deploy response are processed.

    The start offsets are committed before the response.

    Each round kills a worker on each of four streams concurrently.
    """

    PER_ROUND = 200
    ENTITIES = ("log", "decoded_log", "erc20_token_transfer", "erc721_token_transfer")

    @pytest.mark.parametrize("rounds", [pytest.param(1, marks=pytest.mark.slow), pytest.param(5, marks=_LENGTHY)])
    def test_nothing_is_lost(self, installation: Installation, rounds: int) -> None:
        with ThreadPoolExecutor(len(self.ENTITIES)) as pool:
            for done in [pool.submit(self.rounds, installation, entity, rounds) for entity in self.ENTITIES]:
                done.result()

    def rounds(self, installation: Installation, entity: str, count: int) -> None:
        with installation.client() as client:
            for round_number in range(count):
                first = round_number * self.PER_ROUND
                self.one_round(installation, client, entity, range(first, first + self.PER_ROUND))

    def one_round(self, installation: Installation, client: httpx2.Client, entity: str, numbers: range) -> None:
        with deployed(client, pipeline(entity, transforms=[{"type": "v8", "script": SCRIPT}])) as deployment:
            feeding = threading.Thread(target=self.feed_slowly, args=(installation, entity, numbers))
            feeding.start()
            killed = installation.workers_of(deployment)
            kill(killed)
            assert killed
            with reading(deployment.sink) as reader:
                assert_lossless(reader.read(len(numbers)), numbers)
            feeding.join()

    def feed_slowly(self, installation: Installation, entity: str, numbers: range) -> None:
        """Feed some records before the kill, and some after it."""
        for start in range(numbers.start, numbers.stop, 20):
            installation.feed("base", entity, numbered(20, start))


class TestKillsDuringALongRun:
    """The V8 child, the worker and then the parent process are killed.

    Meanwhile 100,000 records are processed.
    """

    COUNT = 100_000

    @pytest.mark.slow
    @pytest.mark.timeout(300)
    def test_nothing_is_lost_and_all_processes_restart(self, own_installation: Installation, tmp_path: Path) -> None:
        own_installation.start()
        with own_installation.client() as client:
            deployment = deploy(client, pipeline(transforms=[{"type": "v8", "script": SCRIPT}]))
        path = write(tmp_path / "records.jsonl", numbered(self.COUNT))
        with (
            own_installation.replay("base", "erc20_token_transfer", path, rate=20_000) as feeding,
            reading(deployment.sink) as reader,
        ):
            reader.read(5_000)
            kill(own_installation.sandboxes())
            reader.read(20_000)
            kill(own_installation.workers())
            reader.read(40_000)
            orphans = own_installation.kill()
            until(partial(all_gone, orphans), what="the end of all children")
            own_installation.start()
            assert feeding.wait(120) == 0  # its producer waited until the broker was back
            assert_lossless(reader.read(self.COUNT, within_s=120), range(self.COUNT))
        with own_installation.client() as client:
            until(partial(healthy, client, deployment.id), what="health after all kills")


class TestHealth:
    @pytest.mark.proves("2.4/worker-entry.restart_count", "1/monitoring")
    @pytest.mark.slow
    def test_a_killed_worker_is_reported_and_restarted(self, installation: Installation, client: httpx2.Client) -> None:
        with deployed(client, pipeline()) as deployment:
            kill(installation.workers())
            url = f"/api/v1/flow/{deployment.id}/deploy/stats"

            def back() -> bool:
                health = client.get(url).json()["workers_health"]
                return bool(health["healthy_workers"] == 1 and health["workers"][0]["restart_count"] == 1)

            until(back, what="the worker's return in deploy/stats")

    @pytest.mark.long
    def test_a_stopped_worker_is_reported_within_five_seconds_and_continues(
        self, installation: Installation, client: httpx2.Client
    ) -> None:
        """A worker that stays stopped is killed after a minute."""
        with deployed(client, pipeline()) as deployment, reading(deployment.sink) as reader:
            url = f"/api/v1/flow/{deployment.id}/deploy/stats"

            def seen(healthy: int) -> bool:
                health = client.get(url).json()["workers_health"]
                (worker,) = health["workers"]
                counted: int = health["healthy_workers"]
                assert worker["is_ready"] == (counted == 1)
                assert counted == 1 or "no progress" in worker["reason"]
                return counted == healthy

            (pid,) = installation.workers_of(deployment)
            with suspended([pid]):
                installation.feed("base", "erc20_token_transfer", numbered(10))
                until(lambda: seen(healthy=0), within_s=5, what="the stopped worker in deploy/stats")
            until(lambda: seen(healthy=1), what="its health")
            assert len(reader.read(10)) == 10
            assert client.get(url).json()["workers_health"]["workers"][0]["restart_count"] == 0

    @pytest.mark.slow
    @pytest.mark.timeout(180)
    def test_a_worker_that_stays_stopped_is_restarted(self, installation: Installation, client: httpx2.Client) -> None:
        with deployed(client, pipeline()) as deployment, reading(deployment.sink) as reader:
            (pid,) = installation.workers_of(deployment)
            os.kill(pid, signal.SIGSTOP)
            installation.feed("base", "erc20_token_transfer", numbered(10))
            assert len(reader.read(10, within_s=120)) == 10
            assert not alive(pid)


class TestEveryPartKilled:
    """Each process is killed alone. The parent restarts it, and the pipeline continues."""

    PARTS = ("valkey-server", "kafka.Kafka", " controller", " api ")
    PER_PART = 100

    @pytest.mark.long
    def test_the_pipeline_continues(self, installation: Installation, client: httpx2.Client) -> None:
        filter_ = {"type": "redis_set_filter", "filter_expr": "root = this.wanted", "set_values": ["yes"]}
        transforms = [filter_, {"type": "v8", "script": SCRIPT}]
        with deployed(client, pipeline("erc1155_token_transfer", transforms=transforms)) as deployment:
            with reading(deployment.sink) as reader:
                for number, part in enumerate(self.PARTS):
                    killed = installation.processes(part)
                    assert killed, part
                    kill(killed)
                    until(partial(all_gone, killed), what=f"the end of {part}")
                    first = number * self.PER_PART
                    records = ({**r, "wanted": "yes"} for r in numbered(self.PER_PART, first))
                    installation.feed("base", "erc1155_token_transfer", records)
                    expected = range(first + self.PER_PART)
                    assert_lossless(reader.read(len(expected)), expected)
            until(partial(healthy, client, deployment.id), what="health after all kills")
