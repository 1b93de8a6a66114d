"""The contract of Orchestrator, in memory and with real processes.

The processes run a small fake worker.

The fake worker implements the workers' probe protocol; acceptance tests use real workers.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from headwater.errors import OrchestratorUnavailable
from headwater.model.access import KafkaAccess
from headwater.model.deployment import ObservedWorker, ObservedWorkerStatus
from headwater.model.progress_clock import QUIET_AFTER_S, STUCK_AFTER_S
from headwater.model.reading_plan import ReadingPlan
from headwater.model.value_sets import SetVersion
from headwater.model.worker_spec import WorkerSet, WorkerSpec
from headwater.orchestrators import process
from headwater.orchestrators.base import Orchestrator
from headwater.orchestrators.cgroups import WorkerCgroups
from headwater.orchestrators.process import MAX_STARTING, ProcessOrchestrator
from headwater.orchestrators.worker_process import START_TIMEOUT_S
from tests.support.memory.orchestrator import MemoryOrchestrator
from tests.support.processes import descendants
from tests.support.waiting import until

MEMORY_LIMIT = 128 << 20
PROGRAM = """
import itertools, json, os, pathlib, select, signal, subprocess, sys
spec, slot, fd = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
revision = json.loads(spec.read_text())["revision"]
if revision == 666:
    os.write(fd, b'{"state":"starting","spec_hash":"x","reason":"the script does not compile"}\\n')
    sys.exit(1)
line = {"time": "2026-01-02T03:04:05Z", "source": "script", "level": "info", "message": f"revision {revision}"}
beat = {"state": "prepared", "spec_hash": spec.stem.removeprefix("spec-"), "logs": [line]}
if revision != 777:  # which never gets prepared
    os.write(fd, json.dumps(beat).encode() + b"\\n")
beat["logs"] = []
while not select.select([fd], [], [], 0.5)[0]:
    if revision != 777:
        os.write(fd, json.dumps(beat).encode() + b"\\n")
os.read(fd, 100)
with (spec.parent / f"joined-{slot}").open("a") as journal:
    journal.write(f"{revision} {os.getpid()}\\n")
    def leave(*_):
        for_good = select.select([fd], [], [], 0)[0] and os.read(fd, 100) == b"leave\\n"
        journal.write(f"{revision} left{' for good' if for_good else ''}\\n")
        journal.flush()
        sys.exit(0)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))  # as one that was fenced
    journal.flush()
    beat |= {"state": "crashing" if revision == 555 else "ready", "committed_batches": 1}
    beat["set_versions"] = {"fs:c1.t": [revision, "a1"]}
    hoard = b"x" * (200 << 20) if revision == 888 else b""
    if revision == 887:  # what it starts needs too much
        wait = "while os.getppid() == parent: time.sleep(0.1)"
        child = f"import os, time; parent = os.getppid(); hoard = b'x' * (200 << 20)\\n{wait}"
        hoard = subprocess.Popen([sys.executable, "-c", child])
    for progress in itertools.count():
        beat["progress"] = min(progress, 3) if revision == 444 else progress
        os.write(fd, json.dumps(beat).encode() + b"\\n")
        select.select([], [], [], 0.5)
"""


def worker_set(revision: int = 1, slots: int = 1, deployment_id: str = "d1") -> WorkerSet:
    spec = WorkerSpec(
        deployment_id=deployment_id,
        config_id="c1",
        owner="o",
        revision=revision,
        source_topic="in",
        source_group="wrk-d1.1",
        transforms=[],
        sinks=[],
        dead_letter_topic="dlq",
        kafka=KafkaAccess(bootstrap_servers="127.0.0.1:1", password="secret"),
        redis_url="",
    )
    return WorkerSet(deployment_id, slots, spec, f"hash{revision}")


def have_niceness(pids: Iterable[int], niceness: int) -> bool:
    return {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids} == {niceness}


def ready(orchestrator: Orchestrator, spec_hash: str, slots: int = 1) -> Callable[[], bool]:
    def check() -> bool:
        workers = orchestrator.status("d1")
        return len(workers) == slots and all(w.is_ready and w.spec_hash == spec_hash for w in workers)

    return check


@pytest.fixture(params=["memory", "process"])
def orchestrator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Orchestrator]:
    orchestrator: Orchestrator = MemoryOrchestrator() if request.param == "memory" else process_orchestrator(tmp_path)
    yield orchestrator
    orchestrator.close()


class Clock:
    """A real clock that a test can advance."""

    added_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.added_s


def process_orchestrator(
    tmp_path: Path, clock: Callable[[], float] = time.monotonic, cgroups: WorkerCgroups | None = None
) -> ProcessOrchestrator:
    def command(spec: Path, slot: int, control_fd: int, _: ReadingPlan) -> Sequence[str]:
        return [sys.executable, "-c", PROGRAM, str(spec), str(slot), str(control_fd)]

    return ProcessOrchestrator(tmp_path / "workers", command, MEMORY_LIMIT, clock=clock, cgroups=cgroups)


class TestEveryOrchestrator:
    def test_ensure_makes_ready_workers(self, orchestrator: Orchestrator) -> None:
        orchestrator.ensure(worker_set(slots=2))
        until(ready(orchestrator, "hash1", 2))
        assert {w.status for w in orchestrator.status("d1")} == {ObservedWorkerStatus.RUNNING}
        assert orchestrator.worker_set_ids() == {"d1"}
        worker_snapshots = sorted(orchestrator.worker_snapshots(), key=lambda pulse: pulse.worker)
        assert [(p.worker, p.spec.config_id, p.heartbeat and p.heartbeat.state) for p in worker_snapshots] == [
            (f"d1-{slot}", "c1", "ready") for slot in range(2)
        ]

    def test_ensure_twice_changes_nothing(self, orchestrator: Orchestrator) -> None:
        orchestrator.ensure(worker_set())
        until(ready(orchestrator, "hash1"))
        before = [w.name for w in orchestrator.status("d1")]
        orchestrator.ensure(worker_set())
        assert [w.name for w in orchestrator.status("d1")] == before
        assert ready(orchestrator, "hash1")()

    def test_ensure_while_starting(self, orchestrator: Orchestrator) -> None:
        orchestrator.ensure(worker_set())
        orchestrator.ensure(worker_set(revision=2))
        until(ready(orchestrator, "hash2"))

    def test_change_of_size_both_ways(self, orchestrator: Orchestrator) -> None:
        for revision, slots in ((1, 1), (2, 3), (3, 1)):
            orchestrator.ensure(worker_set(revision, slots))
            until(ready(orchestrator, f"hash{revision}", slots))

    def test_a_change_of_size_alone(self, orchestrator: Orchestrator) -> None:
        for slots in (1, 3, 2, 1, 2):
            orchestrator.ensure(worker_set(slots=slots))
            until(ready(orchestrator, "hash1", slots))
            assert list(orchestrator.successors("d1")) == []
            assert len(orchestrator.worker_snapshots()) == slots

    def test_a_change_of_size_alone_cancels_a_replacement(self, orchestrator: Orchestrator) -> None:
        orchestrator.ensure(worker_set())
        until(ready(orchestrator, "hash1"))
        orchestrator.ensure(worker_set(revision=777))
        orchestrator.ensure(worker_set(slots=2))
        if isinstance(orchestrator, ProcessOrchestrator):  # in memory, the replacement has ended
            until(ready(orchestrator, "hash1", 2))
            assert list(orchestrator.successors("d1")) == []

    def test_drop_while_starting_and_twice(self, orchestrator: Orchestrator) -> None:
        orchestrator.ensure(worker_set(slots=2))
        until(lambda: orchestrator.stop_workers("d1"))
        assert orchestrator.stop_workers("d1")
        assert list(orchestrator.status("d1")) == []
        assert orchestrator.worker_set_ids() == frozenset()
        assert orchestrator.worker_snapshots() == []

    def test_ensure_again_while_stopping(self, orchestrator: Orchestrator) -> None:
        orchestrator.ensure(worker_set())
        until(ready(orchestrator, "hash1"))
        orchestrator.stop_workers("d1")
        orchestrator.ensure(worker_set())
        until(ready(orchestrator, "hash1"))

    def test_unknown_deployments(self, orchestrator: Orchestrator) -> None:
        assert list(orchestrator.status("nobody")) == []
        assert orchestrator.stop_workers("nobody")

    def test_a_closed_orchestrator_raises_an_error(self, orchestrator: Orchestrator) -> None:
        orchestrator.close()
        with pytest.raises(OrchestratorUnavailable):
            orchestrator.status("d1")


class TestHandOver:
    """Both implementations keep the old workers running while successors prepare."""

    def test_logs_come_once(self, orchestrator: Orchestrator) -> None:
        orchestrator.ensure(worker_set())
        until(ready(orchestrator, "hash1"))
        orchestrator.take_logs()
        assert orchestrator.take_logs() == {}

    def test_no_successors_at_rest(self, orchestrator: Orchestrator) -> None:
        orchestrator.ensure(worker_set())
        until(ready(orchestrator, "hash1"))
        orchestrator.ensure(worker_set(revision=2))
        until(ready(orchestrator, "hash2"))
        assert list(orchestrator.successors("d1")) == []
        assert list(orchestrator.successors("nobody")) == []


class TestProcesses:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def processes(self, tmp_path: Path, clock: Clock) -> Iterator[ProcessOrchestrator]:
        orchestrator = process_orchestrator(tmp_path, clock)
        yield orchestrator
        orchestrator.close()

    def journal(self, tmp_path: Path, slot: int = 0) -> list[str]:
        """Return the workers' log: "<revision> <pid>" when one joins, and "<revision> left"."""
        return (tmp_path / "workers" / "d1" / f"joined-{slot}").read_text().splitlines()

    def pid(self, tmp_path: Path, slot: int = 0) -> int:
        return int(self.journal(tmp_path, slot)[-1].split()[1])

    def worker(self, processes: ProcessOrchestrator) -> ObservedWorker:
        return next(iter(processes.status("d1")))

    def test_a_killed_worker_is_restarted_and_counted(self, processes: ProcessOrchestrator, tmp_path: Path) -> None:
        processes.ensure(worker_set())
        until(ready(processes, "hash1"))
        first = self.pid(tmp_path)
        os.kill(first, signal.SIGKILL)
        until(lambda: self.worker(processes).restart_count == 1)
        assert "SIGKILL" in self.worker(processes).reason
        until(ready(processes, "hash1"))
        assert self.pid(tmp_path) != first

    def test_workers_that_stay_run_on_when_the_size_changes(
        self, processes: ProcessOrchestrator, tmp_path: Path
    ) -> None:
        processes.ensure(worker_set(slots=2))
        until(ready(processes, "hash1", 2))
        before = [self.pid(tmp_path, slot) for slot in range(2)]
        processes.ensure(worker_set(slots=3))
        until(ready(processes, "hash1", 3))
        processes.ensure(worker_set(slots=1))
        until(ready(processes, "hash1", 1))
        assert self.pid(tmp_path) == before[0]
        assert self.journal(tmp_path) == [f"1 {before[0]}"]
        assert self.journal(tmp_path, 1)[-1] == self.journal(tmp_path, 2)[-1] == "1 left for good"

    def test_the_size_changes_during_a_replacement(self, processes: ProcessOrchestrator, tmp_path: Path) -> None:
        processes.ensure(worker_set(slots=2))
        until(ready(processes, "hash1", 2))
        processes.ensure(worker_set(revision=2, slots=2))
        processes.ensure(worker_set(revision=2, slots=3))

        def is_resized() -> bool:
            processes.ensure(worker_set(revision=2, slots=3))
            return ready(processes, "hash2", 3)()

        until(is_resized)
        assert [self.names(tmp_path, slot) for slot in range(3)] == [["1", "1 left", "2"]] * 2 + [["2"]]

    def test_a_worker_has_the_set_versions_of_its_own_heartbeats(
        self, processes: ProcessOrchestrator, tmp_path: Path
    ) -> None:
        processes.ensure(worker_set())
        until(lambda: self.worker(processes).set_versions == {"fs:c1.t": SetVersion(1, "a1")})
        os.kill(self.pid(tmp_path), signal.SIGKILL)
        until(lambda: self.worker(processes).set_versions is None)
        until(lambda: self.worker(processes).set_versions is not None)
        processes.ensure(worker_set(revision=2))
        until(lambda: self.worker(processes).set_versions == {"fs:c1.t": SetVersion(2, "a1")})

    def test_a_few_workers_start_at_once(self, tmp_path: Path) -> None:
        now = 0.0

        def started() -> int:
            return sum(f"{tmp_path}" in process.command for process in descendants(os.getpid()))

        with contextlib.closing(process_orchestrator(tmp_path, lambda: now)) as processes:
            processes.ensure(worker_set())
            until(ready(processes, "hash1"))
            processes.ensure(worker_set(revision=777, slots=MAX_STARTING + 1))
            until(lambda: started() == 1 + MAX_STARTING)
            os.kill(self.pid(tmp_path), signal.SIGKILL)
            until(lambda: self.worker(processes).restart_count == 1)
            now = START_TIMEOUT_S - 1
            until(ready(processes, "hash1"))  # a restart waits for no start
            assert started() == 1 + MAX_STARTING
            now = START_TIMEOUT_S
            until(lambda: started() == 2 + MAX_STARTING)

    def test_more_workers_than_may_start_at_once_become_ready(self, processes: ProcessOrchestrator) -> None:
        processes.ensure(worker_set(slots=3 * MAX_STARTING))
        until(ready(processes, "hash1", 3 * MAX_STARTING))

    def test_many_workers_have_a_low_priority(
        self, processes: ProcessOrchestrator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "MANY_WORKERS", 2)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        for slots, increment in ((2, 0), (3, process.NICENESS_OF_MANY)):
            processes.ensure(worker_set(slots=slots))
            until(ready(processes, "hash1", slots))
            pids = [self.pid(tmp_path, slot) for slot in range(slots)]
            until(partial(have_niceness, pids, own + increment))
        session = Path(f"/proc/{pids[0]}/autogroup")
        if session.exists():  # the kernel has autogroups
            until(lambda: session.read_text().split()[-1] == str(own + increment))

    def test_a_worker_that_keeps_dying_is_in_a_crash_loop(self, processes: ProcessOrchestrator) -> None:
        processes.ensure(worker_set(revision=666))
        until(lambda: self.worker(processes).status is ObservedWorkerStatus.CRASH_LOOP_BACK_OFF)
        worker = self.worker(processes)
        assert worker.is_crash_looping
        assert not worker.is_ready
        assert "the script does not compile" in worker.reason

    def test_a_stopped_worker_is_not_ready_and_finally_killed(
        self, processes: ProcessOrchestrator, tmp_path: Path, clock: Clock
    ) -> None:
        processes.ensure(worker_set())
        until(ready(processes, "hash1"))
        first = self.pid(tmp_path)
        os.kill(first, signal.SIGSTOP)
        clock.added_s += QUIET_AFTER_S
        until(lambda: not self.worker(processes).is_ready)
        assert "no progress for more than 3 s. After 60 s it is killed" in self.worker(processes).reason
        os.kill(first, signal.SIGCONT)
        until(ready(processes, "hash1"))
        assert self.worker(processes).restart_count == 0
        os.kill(first, signal.SIGSTOP)
        clock.added_s += STUCK_AFTER_S
        until(lambda: self.worker(processes).restart_count == 1)
        assert self.worker(processes).reason == "killed: it made no progress for 60 s"
        clock.added_s += 10
        until(ready(processes, "hash1"))
        assert self.pid(tmp_path) != first

    @pytest.mark.long
    def test_a_worker_that_sends_only_alive_heartbeats_is_stuck(
        self, processes: ProcessOrchestrator, clock: Clock
    ) -> None:
        processes.ensure(worker_set(revision=444))
        until(ready(processes, "hash444"))
        until(lambda: not self.worker(processes).is_ready)
        clock.added_s += STUCK_AFTER_S
        until(lambda: self.worker(processes).restart_count == 1)

    def test_a_worker_whose_scripts_keep_crashing_is_reported_and_not_killed(
        self, processes: ProcessOrchestrator, tmp_path: Path
    ) -> None:
        processes.ensure(worker_set(revision=555))
        until(lambda: self.worker(processes).status is ObservedWorkerStatus.CRASH_LOOP_BACK_OFF)
        worker = self.worker(processes)
        assert (worker.is_crash_looping, worker.is_ready, worker.restart_count) == (True, False, 0)
        assert len(self.journal(tmp_path)) == 1

    def test_a_fixed_spec_ends_the_crash_loop_immediately(self, processes: ProcessOrchestrator) -> None:
        processes.ensure(worker_set(revision=666))
        until(lambda: self.worker(processes).is_crash_looping)
        processes.ensure(worker_set(revision=2))
        until(ready(processes, "hash2"))
        assert not self.worker(processes).is_crash_looping

    def names(self, tmp_path: Path, slot: int = 0) -> list[str]:
        """Return the workers' log without pids."""
        return [line if "left" in line else line.split()[0] for line in self.journal(tmp_path, slot)]

    def test_a_successor_joins_when_its_predecessor_has_left(
        self, processes: ProcessOrchestrator, tmp_path: Path
    ) -> None:
        processes.ensure(worker_set(slots=2))
        until(ready(processes, "hash1", 2))
        processes.ensure(worker_set(revision=2, slots=2))
        until(ready(processes, "hash2", 2))
        for slot in range(2):
            assert self.names(tmp_path, slot) == ["1", "1 left", "2"]
        assert [worker.restart_count for worker in processes.status("d1")] == [0, 0]

    def test_a_worker_without_a_successor_leaves_the_group_when_the_others_have_handed_over(
        self, processes: ProcessOrchestrator, tmp_path: Path
    ) -> None:
        processes.ensure(worker_set(slots=2))
        until(ready(processes, "hash1", 2))
        slow = self.pid(tmp_path)
        os.kill(slow, signal.SIGSTOP)
        processes.ensure(worker_set(revision=2))
        until(lambda: processes.status("d1")[0].spec_hash == "hash2")
        time.sleep(0.5)
        assert self.names(tmp_path, 1) == ["1"]
        os.kill(slow, signal.SIGCONT)
        until(ready(processes, "hash2"))
        assert self.names(tmp_path) == ["1", "1 left", "2"]
        assert self.names(tmp_path, 1) == ["1", "1 left for good"]

    def test_old_workers_run_until_all_successors_are_prepared(
        self, processes: ProcessOrchestrator, tmp_path: Path
    ) -> None:
        processes.ensure(worker_set(slots=2))
        until(ready(processes, "hash1", 2))
        processes.ensure(worker_set(revision=777, slots=2))
        until(lambda: {worker.spec_hash for worker in processes.successors("d1")} == {"hash777"})
        assert ready(processes, "hash1", 2)()
        processes.ensure(worker_set(revision=666, slots=2))
        until(lambda: min((worker.deaths for worker in processes.successors("d1")), default=0) >= 2)
        assert "does not compile" in processes.successors("d1")[0].reason
        assert ready(processes, "hash1", 2)()
        processes.ensure(worker_set(slots=2))
        assert list(processes.successors("d1")) == []
        assert ready(processes, "hash1", 2)()
        assert [self.names(tmp_path, slot) for slot in range(2)] == [["1"], ["1"]]

    def test_a_worker_that_is_killed_while_its_successor_prepares_is_restarted(
        self, processes: ProcessOrchestrator, tmp_path: Path
    ) -> None:
        processes.ensure(worker_set())
        until(ready(processes, "hash1"))
        processes.ensure(worker_set(revision=777))
        os.kill(self.pid(tmp_path), signal.SIGKILL)
        until(lambda: self.worker(processes).restart_count == 1)
        until(ready(processes, "hash1"))
        assert self.names(tmp_path) == ["1", "1"]

    def test_the_next_revision_replaces_a_successor_that_never_gets_prepared(
        self, processes: ProcessOrchestrator, tmp_path: Path
    ) -> None:
        processes.ensure(worker_set())
        until(ready(processes, "hash1"))
        processes.ensure(worker_set(revision=777))
        processes.ensure(worker_set(revision=2, slots=3))
        until(ready(processes, "hash2", 3))
        assert self.names(tmp_path) == ["1", "1 left", "2"]
        assert self.names(tmp_path, 2) == ["2"]

    def test_drop_in_a_hand_over(self, processes: ProcessOrchestrator) -> None:
        processes.ensure(worker_set())
        until(ready(processes, "hash1"))
        processes.ensure(worker_set(revision=777))
        until(lambda: processes.stop_workers("d1"))
        assert processes.worker_set_ids() == frozenset()

    def test_lines_of_scripts_and_deaths(self, processes: ProcessOrchestrator, tmp_path: Path) -> None:
        processes.ensure(worker_set())
        until(ready(processes, "hash1"))
        os.kill(self.pid(tmp_path), signal.SIGKILL)
        until(lambda: self.worker(processes).restart_count == 1)
        lines = processes.take_logs()["d1"]
        assert [(line.worker, line.source, line.message) for line in lines] == [
            ("d1-0", "script", "revision 1"),
            ("d1-0", "worker", "killed by SIGKILL"),
        ]

    def test_workers_do_not_get_the_controllers_secrets(
        self, processes: ProcessOrchestrator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HEADWATER_SECRET_KEY", "secret of the controller")
        processes.ensure(worker_set())
        until(ready(processes, "hash1"))
        of_worker = Path(f"/proc/{self.pid(tmp_path)}")
        assert b"PATH=" in (of_worker / "environ").read_bytes()
        for name in ("environ", "cmdline"):
            assert b"secret" not in (of_worker / name).read_bytes()

    def test_logs_of_workers_are_bounded(self, processes: ProcessOrchestrator, tmp_path: Path) -> None:
        processes.ensure(worker_set())
        until(ready(processes, "hash1"))
        assert Path(f"/proc/{self.pid(tmp_path)}/fd/2").readlink().name.startswith("pipe:")

    def test_specs_are_private(self, processes: ProcessOrchestrator, tmp_path: Path) -> None:
        processes.ensure(worker_set())
        spec = tmp_path / "workers" / "d1" / "spec-hash1.json"
        assert spec.stat().st_mode & 0o077 == 0
        assert json.loads(spec.read_text())["kafka"]["password"] == "secret"
        until(lambda: processes.stop_workers("d1"))
        assert not spec.exists()

    def test_specs_of_removed_revisions_are_deleted(self, processes: ProcessOrchestrator, tmp_path: Path) -> None:
        for revision in range(1, 5):
            processes.ensure(worker_set(revision))
            until(ready(processes, f"hash{revision}"))
        specs = sorted(path.name for path in (tmp_path / "workers" / "d1").glob("spec-*"))
        assert specs == ["spec-hash3.json", "spec-hash4.json"]

    def test_log_lines_of_an_abandoned_worker_are_kept(self, processes: ProcessOrchestrator) -> None:
        processes.ensure(worker_set(revision=666))
        until(lambda: self.worker(processes).is_crash_looping)
        until(lambda: processes.stop_workers("d1"))
        assert "the script does not compile" in processes.take_logs()["d1"][-1].message
        assert processes.take_logs() == {}

    def test_a_worker_that_does_not_run_is_not_ready(self, processes: ProcessOrchestrator) -> None:
        processes.ensure(worker_set(revision=666))
        until(lambda: self.worker(processes).is_crash_looping)
        (pulse,) = processes.worker_snapshots()
        assert (pulse.worker, pulse.heartbeat, pulse.is_ready) == ("d1-0", None, False)

    def test_close_ends_every_worker(self, processes: ProcessOrchestrator, tmp_path: Path) -> None:
        processes.ensure(worker_set(slots=2))
        until(ready(processes, "hash1", 2))
        pids = [self.pid(tmp_path, slot) for slot in range(2)]
        processes.close()
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
