"""Workers keep running while the controller lacks descriptors or the lease, or has errors."""

import errno
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.children import Child, spawn
from headwater.model.deployment import ObservedWorkerStatus
from headwater.orchestrators.process import ProcessOrchestrator
from tests.contract.test_orchestrator import Clock, process_orchestrator, ready, worker_set
from tests.support.waiting import until

LONGEST_PAUSE_S = 300


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def processes(tmp_path: Path, clock: Clock) -> Iterator[ProcessOrchestrator]:
    orchestrator = process_orchestrator(tmp_path, clock)
    yield orchestrator
    orchestrator.close()


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Use up this process's file descriptors for the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def pid(tmp_path: Path) -> int:
    return int((tmp_path / "workers" / "d1" / "joined-0").read_text().splitlines()[-1].split()[1])


def test_the_orchestrator_recovers_from_a_lack_of_file_descriptors(
    processes: ProcessOrchestrator, tmp_path: Path, clock: Clock
) -> None:
    processes.ensure(worker_set())
    until(ready(processes, "hash1"))
    first = pid(tmp_path)
    with no_descriptors():
        time.sleep(1.5)  # the orchestrator checks the memory once a second
        assert ready(processes, "hash1")()
        os.kill(first, signal.SIGKILL)
        until(lambda: processes.status("d1")[0].restart_count == 1)
        clock.added_s += 10
        until(lambda: processes.status("d1")[0].restart_count >= 2)
        assert "can't start a process" in processes.status("d1")[0].reason
    clock.added_s += 10
    until(ready(processes, "hash1"))
    assert pid(tmp_path) != first


def test_a_process_that_cannot_be_watched_is_not_left_running(
    processes: ProcessOrchestrator, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Child] = []

    def note(*args: object, **options: object) -> Child:
        started.append(spawn(*args, **options))  # type: ignore[arg-type]
        return started[-1]

    def fail(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("headwater.orchestrators.process.spawn", note)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", fail)
        processes.ensure(worker_set())
        until(lambda: "Too many open files" in processes.status("d1")[0].reason)
        assert started[0].poll() is not None
    clock.added_s += 10
    until(ready(processes, "hash1"))


def test_an_unexpected_error_is_logged_and_the_orchestrator_continues(
    processes: ProcessOrchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = []

    def fail(_: int) -> int:
        monkeypatch.undo()
        raised.append(True)
        raise RuntimeError("nobody expects this")

    monkeypatch.setattr("headwater.orchestrators.process.resident_bytes", fail)
    processes.ensure(worker_set())
    until(lambda: bool(raised))
    until(ready(processes, "hash1"))


def test_a_fenced_worker_is_restarted_only_when_its_controller_leads(
    processes: ProcessOrchestrator, tmp_path: Path, clock: Clock
) -> None:
    processes.set_lease_remaining(10)
    processes.ensure(worker_set())
    until(ready(processes, "hash1"))
    clock.added_s += 10
    fenced = pid(tmp_path)
    os.kill(fenced, signal.SIGUSR1)
    until(lambda: processes.status("d1")[0].reason == "ended with status 3")
    clock.added_s += LONGEST_PAUSE_S
    time.sleep(0.5)
    assert processes.status("d1")[0].status is ObservedWorkerStatus.PENDING
    assert pid(tmp_path) == fenced
    processes.set_lease_remaining(10)
    until(ready(processes, "hash1"))
    os.kill(pid(tmp_path), signal.SIGUSR1)
    until(lambda: processes.status("d1")[0].restart_count == 2)
    clock.added_s += 9
    processes.set_lease_remaining(10)
    until(ready(processes, "hash1"))


def test_other_dead_workers_are_restarted_without_a_lease(
    processes: ProcessOrchestrator, tmp_path: Path, clock: Clock
) -> None:
    processes.ensure(worker_set())
    until(ready(processes, "hash1"))
    os.kill(pid(tmp_path), signal.SIGKILL)
    until(lambda: processes.status("d1")[0].restart_count == 1)
    clock.added_s += LONGEST_PAUSE_S
    until(ready(processes, "hash1"))
