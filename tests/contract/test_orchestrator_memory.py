"""Workers that the orchestrator or the kernel kills for their memory use.

The kernel's counter of kills is a file of the test. Only the workers of TestIsolation have their own cgroups.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headwater.app import build_worker
from headwater.children import inherited_environment
from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus
from headwater.model.reading_plan import ReadingPlan
from headwater.orchestrators import memory_usage
from headwater.orchestrators.cgroups import V2, find_cgroups
from headwater.orchestrators.memory_usage import RECENT_S, OomKillDetector, own_cgroup_counter
from headwater.orchestrators.process import MEMORY_CHECK_INTERVAL_S, STOP_GRACE_S, ProcessOrchestrator
from tests.contract.test_orchestrator import Clock, process_orchestrator, ready, worker_set
from tests.support.memory_worker import BOMB, PARTITIONS, POSITIONS, RECORDS
from tests.support.waiting import until


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "memory.events"
    path.write_text("oom 0\noom_kill 5\n")
    monkeypatch.setattr(memory_usage, "own_memory_cgroups", lambda: [(tmp_path, V2)])
    return path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def processes(tmp_path: Path, clock: Clock, counter: Path) -> Iterator[ProcessOrchestrator]:
    orchestrator = process_orchestrator(tmp_path, clock)
    yield orchestrator
    orchestrator.close()


def start(processes: ProcessOrchestrator, tmp_path: Path, slots: int = 1) -> list[int]:
    """Start workers, wait until they are ready, and return their process ids."""
    processes.ensure(worker_set(slots=slots))
    until(ready(processes, "hash1", slots))
    journals = [tmp_path / "workers" / "d1" / f"joined-{slot}" for slot in range(slots)]
    return [int(journal.read_text().split()[1]) for journal in journals]


def dead(processes: ProcessOrchestrator) -> list[ObservedWorker]:
    return [worker for worker in processes.status("d1") if worker.restart_count]


def test_a_worker_over_its_memory_limit_is_killed_and_reported(processes: ProcessOrchestrator) -> None:
    processes.ensure(worker_set(revision=888))
    until(lambda: processes.status("d1")[0].status is ObservedWorkerStatus.OOM_KILLED)
    worker = processes.status("d1")[0]
    assert worker.is_oom_killed
    assert not worker.is_ready
    assert "killed for memory" in worker.reason
    until(lambda: processes.status("d1")[0].status is ObservedWorkerStatus.RUNNING)
    assert processes.status("d1")[0].is_oom_killed, "the kill is reported for a while"
    processes.ensure(worker_set(revision=1))
    until(ready(processes, "hash1"))
    assert not processes.status("d1")[0].is_oom_killed


def test_all_workers_that_the_kernel_kills_together_are_reported(
    processes: ProcessOrchestrator, tmp_path: Path, counter: Path
) -> None:
    pids = start(processes, tmp_path, slots=2)
    counter.write_text("oom 2\noom_kill 7\n")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(dead(processes)) == 2)
    assert all(worker.is_oom_killed and "by the kernel" in worker.reason for worker in dead(processes))


def test_a_kill_long_after_an_out_of_memory_kill_is_not_reported_as_one(
    processes: ProcessOrchestrator, tmp_path: Path, counter: Path, clock: Clock
) -> None:
    pid = start(processes, tmp_path)[0]
    counter.write_text("oom 1\noom_kill 6\n")
    clock.added_s += MEMORY_CHECK_INTERVAL_S
    until(lambda: processes._own_cgroup_oom_kills.is_recent)
    clock.added_s += RECENT_S
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(dead(processes)) == 1)
    assert (dead(processes)[0].is_oom_killed, dead(processes)[0].reason) == (False, "killed by SIGKILL")


def test_a_worker_that_is_killed_because_it_does_not_stop_is_not_counted(
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
    kills = OomKillDetector(Clock(), own_cgroup_counter())
    there = counter.read_text()
    counter.unlink()
    kills.poll()
    counter.write_text(there)
    kills.poll()
    assert not kills.is_recent


ISOLATION_LIMIT = 320 << 20
WITHIN_S = 90.0


class TestIsolation:
    """One record of partition 0 needs more memory than a worker may use.

    tests/support/memory_worker.py implements this worker.
    """

    @pytest.fixture(params=["measured", "control group"])
    def isolating(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessOrchestrator]:
        self.positions = tmp_path / "positions.json"
        self.positions.write_text(json.dumps(dict.fromkeys(range(PARTITIONS), 0)))
        run_dir = tmp_path / "workers"
        cgroups = find_cgroups(run_dir, ISOLATION_LIMIT) if request.param == "control group" else None
        if request.param == "control group" and cgroups is None:
            reason = "no control group can be made here: it takes root or a delegated part of the tree"
            assert not os.environ.get("CI"), reason
            pytest.skip(reason)

        def command(spec: Path, slot: int, control_fd: int, reading_plan: ReadingPlan) -> Sequence[str]:
            return [
                sys.executable,
                "-m",
                "tests.support.memory_worker",
                *build_worker.command(spec, slot, control_fd, reading_plan)[3:],
            ]

        repository = str(Path(__file__).parents[2])
        environment = inherited_environment() | {POSITIONS: str(self.positions), "PYTHONPATH": repository}
        orchestrator = ProcessOrchestrator(run_dir, command, ISOLATION_LIMIT, environment=environment, cgroups=cgroups)
        yield orchestrator
        orchestrator.close()

    def committed(self) -> list[int]:
        return list(json.loads(self.positions.read_text()).values())

    def is_left_out(self, isolating: ProcessOrchestrator, spec_hash: str) -> bool:
        """Return whether a worker of a spec has read all partitions but partition 0."""
        (worker,) = isolating.status("d1")
        left_out = worker.reason.startswith("Partition 0 of the stream is not read")
        others = self.committed()[1:] == [RECORDS] * (PARTITIONS - 1)
        return worker.spec_hash == spec_hash and worker.is_ready and left_out and others

    @pytest.mark.long
    def test_the_partition_of_a_record_that_needs_too_much_memory_is_excluded(
        self, isolating: ProcessOrchestrator
    ) -> None:
        isolating.ensure(worker_set())
        until(lambda: self.is_left_out(isolating, "hash1"), WITHIN_S)
        assert self.committed()[0] <= BOMB
        (worker,) = isolating.status("d1")
        assert worker.is_oom_killed
        assert f"from offset {self.committed()[0]} on" in worker.reason
        errors = [line.message for line in isolating.take_logs()["d1"] if line.level == "error"]
        assert [message.startswith("killed for memory") for message in errors[:-1]] == [True] * worker.restart_count
        assert errors[-1] == worker.reason
        isolating.ensure(worker_set(revision=2))
        until(lambda: self.is_left_out(isolating, "hash2"), WITHIN_S)
        (successor,) = isolating.status("d1")
        deaths = successor.restart_count - worker.restart_count
        assert (deaths, successor.deaths) == (1, 0), "its death is no fault of the new revision"
