"""Workers in their own cgroups of this machine's kernel: out-of-memory kills, and cleanup."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus
from headwater.orchestrators.cgroups import BASE_FILE, WorkerCgroups, find_cgroups
from headwater.orchestrators.memory_usage import RECENT_S
from headwater.orchestrators.process import MEMORY_CHECK_INTERVAL_S, ProcessOrchestrator
from headwater.orchestrators.slot import OVER_LIMIT_REASON, SCRIPTS_KILLED_MESSAGE
from tests.contract.test_orchestrator import MEMORY_LIMIT, Clock, process_orchestrator, ready, worker_set
from tests.support.waiting import until


@pytest.fixture
def cgroups(tmp_path: Path) -> WorkerCgroups:
    """Skip these tests if cgroups cannot be created, but not in CI."""
    found = find_cgroups(tmp_path / "workers", MEMORY_LIMIT)
    if found is None:
        reason = "no control group can be made here: it takes root or a delegated part of the tree"
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def processes(tmp_path: Path, clock: Clock, cgroups: WorkerCgroups) -> Iterator[ProcessOrchestrator]:
    orchestrator = process_orchestrator(tmp_path, clock, cgroups)
    yield orchestrator
    orchestrator.close()
    assert folders(cgroups) == []


def folders(cgroups: WorkerCgroups) -> list[Path]:
    return list(cgroups.base.glob(f"{cgroups._prefix}*"))


def worker(processes: ProcessOrchestrator) -> ObservedWorker:
    return next(iter(processes.status("d1")))


def pid(tmp_path: Path) -> int:
    return int((tmp_path / "workers" / "d1" / "joined-0").read_text().splitlines()[-1].split()[1])


def limit_of(cgroups: WorkerCgroups) -> int:
    (folder,) = folders(cgroups)
    return int((folder / cgroups._version.limit_file).read_text())


def test_a_worker_and_its_children_have_a_cgroup_that_is_removed_with_them(
    processes: ProcessOrchestrator, cgroups: WorkerCgroups, tmp_path: Path
) -> None:
    processes.ensure(worker_set())
    until(ready(processes, "hash1"))
    (folder,) = folders(cgroups)
    assert str(pid(tmp_path)) in (folder / "cgroup.procs").read_text().split()
    assert limit_of(cgroups) == MEMORY_LIMIT
    processes.ensure(worker_set(revision=2))
    until(ready(processes, "hash2"))
    until(lambda: len(folders(cgroups)) == 1)
    until(lambda: processes.stop_workers("d1"))
    until(lambda: folders(cgroups) == [])


def test_an_out_of_memory_kill_of_a_worker_is_reported(processes: ProcessOrchestrator) -> None:
    processes.ensure(worker_set(revision=888))
    until(lambda: worker(processes).status is ObservedWorkerStatus.OOM_KILLED)
    assert (worker(processes).is_oom_killed, worker(processes).is_ready) == (True, False)
    assert worker(processes).reason == OVER_LIMIT_REASON


def test_an_out_of_memory_kill_of_a_child_is_reported_and_not_a_death_of_the_worker(
    processes: ProcessOrchestrator, tmp_path: Path, clock: Clock
) -> None:
    processes.ensure(worker_set(revision=887))
    until(ready(processes, "hash887"))
    first = pid(tmp_path)
    until(lambda: processes._slots["d1"][0].worker.process.oom_kills.is_recent)  # type: ignore[union-attr]
    clock.added_s += RECENT_S + MEMORY_CHECK_INTERVAL_S
    messages: list[str] = []

    def is_told() -> bool:
        messages.extend(line.message for line in processes.take_logs().get("d1", []))
        return SCRIPTS_KILLED_MESSAGE in messages

    until(is_told)
    assert (pid(tmp_path), worker(processes).restart_count, worker(processes).is_oom_killed) == (first, 0, False)
    os.kill(first, signal.SIGKILL)
    until(lambda: worker(processes).restart_count == 1)
    assert (worker(processes).is_oom_killed, worker(processes).reason) == (False, "killed by SIGKILL")


def test_cgroups_of_a_killed_orchestrator_are_removed_by_the_next_one(cgroups: WorkerCgroups, tmp_path: Path) -> None:
    program = f"""
import pathlib, time
from headwater.orchestrators.cgroups import find_cgroups
from tests.contract.test_orchestrator import process_orchestrator, ready, worker_set
from tests.support.waiting import until
path = pathlib.Path({str(tmp_path)!r})
processes = process_orchestrator(path, cgroups=find_cgroups(path / "workers", 128 << 20))
processes.ensure(worker_set())
until(ready(processes, "hash1"))
print("ready", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        assert len(folders(cgroups)) == 1
        other.kill()
    assert Path((tmp_path / "workers" / BASE_FILE).read_text()) == cgroups.base

    def is_removed() -> bool:
        found = find_cgroups(tmp_path / "workers", MEMORY_LIMIT)
        return found is not None and not folders(found)

    until(is_removed)
