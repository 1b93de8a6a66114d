"""Workers that are killed for memory: by the orchestrator, or by the kernel, of which its counter tells (a file of the
test's in place of the control group's). Here workers have no control groups of their own.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.model.deployment import Status, WorkerStatus
from headwater.orchestrators import usage
from headwater.orchestrators.process import MEMORY_EVERY_S, STOP_GRACE_S, ProcessOrchestrator
from headwater.orchestrators.usage import RECENT_S, KernelKills, kills_in_own_group
from tests.contract.test_orchestrator import Clock, process_orchestrator, ready, until, worker_set


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "memory.events"
    path.write_text("oom 0\noom_kill 5\n")
    monkeypatch.setattr(usage, "_counters", lambda: [path])
    return path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def processes(tmp_path: Path, clock: Clock, counter: Path) -> Iterator[ProcessOrchestrator]:
    made = process_orchestrator(tmp_path, clock)
    yield made
    made.close()


def start(processes: ProcessOrchestrator, tmp_path: Path, slots: int = 1) -> list[int]:
    """The processes' ids, once all of them work."""
    processes.ensure(worker_set(slots=slots))
    until(ready(processes, "hash1", slots))
    journals = [tmp_path / "workers" / "d1" / f"joined-{slot}" for slot in range(slots)]
    return [int(journal.read_text().split()[1]) for journal in journals]


def dead(processes: ProcessOrchestrator) -> list[WorkerStatus]:
    return [worker for worker in processes.status("d1") if worker.restart_count]


def test_a_worker_that_uses_too_much_is_killed_and_shown_as_such(processes: ProcessOrchestrator) -> None:
    processes.ensure(worker_set(revision=888))
    until(lambda: processes.status("d1")[0].status is Status.OOM_KILLED)
    worker = processes.status("d1")[0]
    assert worker.is_oom_killed
    assert not worker.is_ready
    assert "killed for memory" in worker.reason
    until(lambda: processes.status("d1")[0].status is Status.RUNNING)
    assert processes.status("d1")[0].is_oom_killed, "it is told for a while"
    processes.ensure(worker_set(revision=1))
    until(ready(processes, "hash1"))
    assert not processes.status("d1")[0].is_oom_killed


def test_all_workers_that_the_kernel_takes_at_once_are_told_as_such(
    processes: ProcessOrchestrator, tmp_path: Path, counter: Path
) -> None:
    pids = start(processes, tmp_path, slots=2)
    counter.write_text("oom 2\noom_kill 7\n")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(dead(processes)) == 2)
    assert all(worker.is_oom_killed and "by the kernel" in worker.reason for worker in dead(processes))


def test_a_kill_long_after_that_of_another_process_is_not(
    processes: ProcessOrchestrator, tmp_path: Path, counter: Path, clock: Clock
) -> None:
    pid = start(processes, tmp_path)[0]
    counter.write_text("oom 1\noom_kill 6\n")
    clock.added_s += MEMORY_EVERY_S
    until(lambda: processes._kills_in_own_group.is_recent)
    clock.added_s += RECENT_S
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(dead(processes)) == 1)
    assert (dead(processes)[0].is_oom_killed, dead(processes)[0].reason) == (False, "killed by SIGKILL")


def test_a_worker_that_is_killed_because_it_does_not_stop_has_not_died(
    processes: ProcessOrchestrator, tmp_path: Path, counter: Path, clock: Clock
) -> None:
    pid = start(processes, tmp_path)[0]
    os.kill(pid, signal.SIGSTOP)
    processes.ensure(worker_set(revision=2))
    until(lambda: processes.status("d1")[0].spec_hash == "hash2")
    counter.write_text("oom 1\noom_kill 6\n")
    clock.added_s += STOP_GRACE_S
    until(ready(processes, "hash2"))
    assert processes.status("d1")[0].restart_count == 0


def test_a_counter_that_cannot_be_read_for_a_while_has_not_risen(counter: Path) -> None:
    kills = KernelKills(Clock(), kills_in_own_group())
    there = counter.read_text()
    counter.unlink()
    kills.look()
    counter.write_text(there)
    kills.look()
    assert not kills.is_recent
