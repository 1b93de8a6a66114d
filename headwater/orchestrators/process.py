"""Runs workers as local processes, one per slot.

They are restarted with back-off and report over a socket pair. A single thread manages all slots. It waits on the
sockets and the pidfds of the workers, so it notices deaths and heartbeats at once, without polling. Workers die with
this process (children.py); the next start creates them again.

A change starts a successor beside each worker. When all successors of a set are prepared, the workers receive SIGTERM.
When a worker has ended, its successor receives JOIN and takes over the static group membership, so no partition is
reassigned. Workers that have no successor end last, and leave the group.
"""

import contextlib
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import structlog

from headwater.child_logs import captured_output
from headwater.children import spawn
from headwater.errors import OrchestratorUnavailable
from headwater.loop_health import LoopHealth
from headwater.model.deployment import LogLine, WorkerStatus
from headwater.model.reading_plan import ReadingPlan
from headwater.model.worker_protocol import JOIN, LEAVE, WorkerSnapshot
from headwater.model.worker_spec import WorkerSet
from headwater.orchestrators.cgroups import WorkerGroup, WorkerGroups, write_base_file
from headwater.orchestrators.memory_usage import OomKillCounter, kills_in_own_group, resident_bytes
from headwater.orchestrators.slot import SCRIPTS_KILLED_MESSAGE, ManagedProcess, Slot
from headwater.orchestrators.worker_process import STUCK_AFTER_S, WorkerProcess

log = structlog.get_logger(__name__)

TICK_S = 0.2
MAX_RETRY_DELAY_S = 2.0
"""The maximum wait after an error of the thread. It delays the restart of workers."""
STOP_GRACE_S = 10.0
MEMORY_CHECK_INTERVAL_S = 1.0
MAX_LOG_BYTES = 4 << 20
GROUP_REMOVAL_TIMEOUT_S = 2.0
"""How long `close` waits for the workers' control groups to become empty. The next start removes remaining ones."""

Command = Callable[[Path, int, int, ReadingPlan], Sequence[str]]
"""Returns the command line of a worker: (spec file, slot, probe fd, reading plan) → argv."""


class ProcessOrchestrator:
    """Implements orchestrators.base.Orchestrator.

    Args:
        run_dir: A directory for the specs and the logs, with a folder per deployment; created with mode 0700.
        command: Returns the command line of a worker.
        memory_limit: The bytes that a worker may use with its child processes. A worker that uses more is killed.
        clock: Returns monotonic seconds.
        environment: The environment of the workers; `children.inherited_environment()` when it is None.
        groups: Control groups for the workers. Without them, the workers' memory is measured once a second.
    """

    def __init__(
        self,
        run_dir: Path,
        command: Command,
        memory_limit: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        environment: Mapping[str, str] | None = None,
        groups: WorkerGroups | None = None,
    ) -> None:
        self._environment = environment
        self._groups = groups
        self._memory_limit = memory_limit
        self._kills_in_own_group = OomKillCounter(clock, kills_in_own_group())
        self._next_memory_check = 0.0
        self._leads_until = float("-inf")
        self._run_dir = run_dir
        self._command = command
        self._clock = clock
        self._lock = threading.RLock()
        self._running_sets: dict[str, WorkerSet] = {}
        self._pending_sets: dict[str, WorkerSet] = {}
        self._slots: dict[str, dict[int, Slot]] = {}
        self._remaining_logs: dict[str, list[LogLine]] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._closed = threading.Event()
        shutil.rmtree(run_dir, ignore_errors=True)
        run_dir.mkdir(mode=0o700, parents=True)
        if groups is not None:
            write_base_file(run_dir, groups)
        self._loop = LoopHealth("managing workers")
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)
        self._thread.start()

    def ensure(self, wanted: WorkerSet) -> None:
        with self._lock:
            self._check_open()
            deployment_id = wanted.deployment_id
            if self._running_sets.get(deployment_id) == wanted:
                self._cancel_replacement(deployment_id)
            elif self._pending_sets.get(deployment_id) != wanted:
                self._start_or_replace(wanted)
            self._wake()

    def _start_or_replace(self, wanted: WorkerSet) -> None:
        """Begin to start a worker set, or to replace the running one."""
        deployment_id = wanted.deployment_id
        is_replacement = deployment_id in self._running_sets
        self._write_spec(wanted)
        (self._pending_sets if is_replacement else self._running_sets)[deployment_id] = wanted
        for number in range(wanted.slots):
            self._slots.setdefault(deployment_id, {}).setdefault(number, Slot(f"{deployment_id}-{number}"))
        slots = self._slots_of(deployment_id)
        quarantined = [position for _, slot in slots for position in slot.oom_history.quarantined]
        for number, slot in slots:
            slot.oom_history.note_quarantined(quarantined)
            managed = slot.successor if is_replacement else slot.worker
            managed.set_wanted_spec(wanted.spec_hash if number < wanted.slots else None)

    def _slots_of(self, deployment_id: str) -> list[tuple[int, Slot]]:
        """Return the slots of a deployment with their numbers."""
        return sorted(self._slots.get(deployment_id, {}).items())

    def _all_slots(self) -> Iterator[tuple[str, Slot]]:
        """Return all slots, each with the id of its deployment."""
        return ((owner, slot) for owner, slots in self._slots.items() for slot in slots.values())

    def _cancel_replacement(self, deployment_id: str) -> None:
        """Cancel the replacement of a running set: stop the successors."""
        if self._pending_sets.pop(deployment_id, None) is not None:
            for _, slot in self._slots_of(deployment_id):
                slot.successor.set_wanted_spec(None)

    def extend_leadership(self, for_s: float) -> None:
        self._leads_until = self._clock() + for_s

    def stop_workers(self, deployment_id: str) -> bool:
        with self._lock:
            self._check_open()
            self._running_sets.pop(deployment_id, None)
            self._pending_sets.pop(deployment_id, None)
            slots = self._slots_of(deployment_id)
            for _, slot in slots:
                slot.worker.set_wanted_spec(None)
                slot.successor.set_wanted_spec(None)
            if not slots:
                shutil.rmtree(self._folder(deployment_id), ignore_errors=True)
            self._wake()
        return not slots

    def status(self, deployment_id: str) -> Sequence[WorkerStatus]:
        with self._lock:
            self._check_open()
            slots = [slot for _, slot in self._slots_of(deployment_id)]
            shown = [slot for slot in slots if slot.worker.spec_hash or slot.worker.process]
            return [slot.status(slot.worker, self._clock()) for slot in shown]

    def successors(self, deployment_id: str) -> Sequence[WorkerStatus]:
        with self._lock:
            self._check_open()
            slots = [slot for _, slot in self._slots_of(deployment_id) if slot.successor.spec_hash]
            return [slot.status(slot.successor, self._clock()) for slot in slots]

    def take_logs(self) -> dict[str, list[LogLine]]:
        with self._lock:
            self._check_open()
            taken, self._remaining_logs = self._remaining_logs, {}
            for deployment_id, slot in self._all_slots():
                if slot.lines:
                    taken.setdefault(deployment_id, []).extend(slot.lines)
                    slot.lines.clear()
            return {owner: sorted(lines, key=lambda line: line.time) for owner, lines in taken.items()}

    def worker_snapshots(self) -> Sequence[WorkerSnapshot]:
        with self._lock:
            self._check_open()
            workers = [
                (self._running_sets[owner], slot) for owner, slot in self._all_slots() if owner in self._running_sets
            ]
            now = self._clock()
            return [
                WorkerSnapshot(
                    slot.name,
                    wanted.spec,
                    None if slot.worker.process is None else slot.worker.process.heartbeat,
                    is_ready=slot.status(slot.worker, now).is_ready,
                )
                for wanted, slot in workers
                if slot.worker.spec_hash is not None
            ]

    def running_deployments(self) -> frozenset[str]:
        with self._lock:
            self._check_open()
            return frozenset(self._slots)

    @property
    def current_failure(self) -> str:
        return self._loop.error

    def close(self) -> None:
        with self._lock:
            if not self._closed.is_set():
                self._closed.set()
                self._wake()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed.is_set() or not self._thread.is_alive():
            raise OrchestratorUnavailable("The process orchestrator has stopped; restart the controller.")

    def _folder(self, deployment_id: str) -> Path:
        return self._run_dir / deployment_id

    def _spec_path(self, deployment_id: str, spec_hash: str) -> Path:
        return self._folder(deployment_id) / f"spec-{spec_hash}.json"

    def _write_spec(self, wanted: WorkerSet) -> None:
        """Write a spec file, and remove unneeded ones, which contain scripts and credentials."""
        path = self._spec_path(wanted.deployment_id, wanted.spec_hash)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        needed = {spec_hash for _, slot in self._slots_of(wanted.deployment_id) for spec_hash in slot.spec_hashes}
        for old in path.parent.glob("spec-*.json"):
            if old.stem.removeprefix("spec-") not in needed:
                old.unlink()
        path.touch(mode=0o600)
        path.write_text(wanted.spec.model_dump_json())

    def _wake(self) -> None:
        """Wake the thread.

        Call this under the lock, since the thread closes the sockets when it ends.
        """
        with contextlib.suppress(BlockingIOError):
            self._wake_in.send(b"!")

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._run_once()
                self._loop.on_success()
            except Exception as error:  # noqa: BLE001  # only this thread manages the workers
                self._closed.wait(min(self._loop.on_error(error), MAX_RETRY_DELAY_S))
        self._stop_all()

    def _run_once(self) -> None:
        for key, _ in self._selector.select(TICK_S):
            self._handle_ready_descriptor(key)
        with self._lock:
            for slot_key in [(owner, number) for owner, slots in self._slots.items() for number in slots]:
                self._reconcile_slot(slot_key)
            for deployment_id in list(self._pending_sets):
                self._hand_over_if_prepared(deployment_id)
            self._enforce_memory_limits()

    def _handle_ready_descriptor(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            with contextlib.suppress(BlockingIOError):
                self._wake_out.recv(4096)
            return
        process: WorkerProcess = key.data
        with self._lock:
            if key.fileobj is process.probe and not process.read_heartbeats():
                self._selector.unregister(process.probe)  # the worker closed it; its pidfd reports the end

    def _hand_over_if_prepared(self, deployment_id: str) -> None:
        wanted = self._pending_sets[deployment_id]
        if all(self._slots[deployment_id][number].is_prepared for number in range(wanted.slots)):
            self._running_sets[deployment_id] = self._pending_sets.pop(deployment_id)
            for _, slot in self._slots_of(deployment_id):
                slot.hand_over()
            self._wake()

    def _is_handing_over(self, deployment_id: str) -> bool:
        """Whether a hand-over is in progress.

        No worker leaves the group meanwhile, because the rebalance could reject the last commits of workers that are
        being replaced.
        """
        return any(slot.is_handing_over for _, slot in self._slots_of(deployment_id))

    def _enforce_memory_limits(self) -> None:
        """Kill the workers that exceed the limit, unless the kernel limits them in control groups."""
        now = self._clock()
        if now < self._next_memory_check:
            return
        self._next_memory_check = now + MEMORY_CHECK_INTERVAL_S
        self._kills_in_own_group.poll()
        if self._groups is not None:
            self._groups.sweep()
        for _, slot in self._all_slots():
            for process in (
                managed.process for managed in (slot.worker, slot.successor) if managed.process is not None
            ):
                self._enforce_memory_limit(slot, process)

    def _enforce_memory_limit(self, slot: Slot, process: WorkerProcess) -> None:
        if process.group is None:
            if resident_bytes(process.child.pid) > self._memory_limit:
                process.was_killed_over_limit = True
                process.child.send(signal.SIGKILL)
            return
        process.kills.poll()
        if process.kills.take_survived_kill():
            slot.log("warning", SCRIPTS_KILLED_MESSAGE)

    def _reconcile_slot(self, key: tuple[str, int]) -> None:
        """Reconcile the processes of a slot.

        Reaps the ended processes of the slot, promotes its successor, and stops or starts its processes.
        """
        slots, now = self._slots[key[0]], self._clock()
        slot = slots[key[1]]
        for managed in (slot.worker, slot.successor):
            if managed.process is not None and (status := managed.process.child.poll()) is not None:
                self._reap(slot, managed, status, now)
        if slot.promote() and slot.worker.process is not None:
            slot.worker.process.send(JOIN)
        slot.clear_dead_successor()
        if slot.worker.spec_hash is not None or not self._is_handing_over(key[0]):
            self._stop_if_unwanted(slot, slot.worker, now)
        self._stop_if_unwanted(slot, slot.successor, now)
        if slot.is_empty:
            self._remaining_logs.setdefault(key[0], []).extend(slot.lines)
            del slots[key[1]]
            if not slots:
                del self._slots[key[0]]
            return
        self._start_if_due(key, slot, slot.worker, now)
        self._start_if_due(key, slot, slot.successor, now)

    def _stop_if_unwanted(self, slot: Slot, managed: ManagedProcess, now: float) -> None:
        process = managed.process
        if process is None:
            return
        if process.stop_deadline is None:
            if process.spec_hash == managed.spec_hash:
                self._kill_if_stuck(slot, process)
                return
            process.stop_deadline = now + STOP_GRACE_S
            if managed.spec_hash is None:
                process.send(LEAVE)
            process.child.send(signal.SIGTERM)
        elif now >= process.stop_deadline:
            log.warning("worker ignored SIGTERM; it is killed", worker=slot.name, grace_s=STOP_GRACE_S)
            process.child.send(signal.SIGKILL)

    def _kill_if_stuck(self, slot: Slot, process: WorkerProcess) -> None:
        if process.is_stuck and not process.was_killed_stuck:
            log.warning("worker makes no progress; it is killed", worker=slot.name, after_s=STUCK_AFTER_S)
            process.was_killed_stuck = True
            process.child.send(signal.SIGKILL)

    def _reap(self, slot: Slot, managed: ManagedProcess, status: int, now: float) -> None:
        process = managed.process
        assert process is not None
        process.read_last_heartbeats()
        self._unwatch(process)
        process.kills.poll()
        if process.group is not None and process.kills.is_recent:
            process.was_killed_over_limit = process.was_killed_over_limit or process.group.reached_limit()
        slot.ended(managed, status, now)
        if self._groups is not None and process.group is not None:
            self._groups.discard(process.group)

    def _start_if_due(self, key: tuple[str, int], slot: Slot, managed: ManagedProcess, now: float) -> None:
        if managed.spec_hash is None or managed.process is not None or now < managed.restart_at:
            return
        if managed.is_fenced and now >= self._leads_until:
            return
        try:
            managed.process = self._start(key, slot, managed.spec_hash)
        except OSError as error:  # the system has no process or descriptor left
            log.error("worker can't be started", worker=slot.name, error=str(error))
            slot.died(managed, f"can't start a process: {error.strerror or error}", self._clock())
        else:
            if managed is slot.worker:
                managed.process.send(JOIN)

    def _start(self, key: tuple[str, int], slot: Slot, spec_hash: str) -> WorkerProcess:
        """Start a worker process.

        When this raises OSError, no process runs and all descriptors are closed.
        """
        with contextlib.ExitStack() as undo:
            group = self._new_group(undo)
            ours, theirs = socket.socketpair()
            undo.enter_context(ours).setblocking(False)
            with theirs, captured_output(self._folder(key[0]) / f"worker-{key[1]}.log", MAX_LOG_BYTES) as output:
                child = spawn(
                    self._command(
                        self._spec_path(key[0], spec_hash),
                        key[1],
                        theirs.fileno(),
                        slot.oom_history.plan(spec_hash),
                    ),
                    env=self._environment,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                    pass_fds=[theirs.fileno()],
                    cgroup_procs=None if group is None else group.processes,
                )
            undo.callback(child.stop, 0)
            kills = self._kills_in_own_group if group is None else OomKillCounter(self._clock, group.kills)
            process = WorkerProcess(
                spec_hash=spec_hash,
                child=child,
                probe=ours,
                on_heartbeat=lambda beat: slot.on_heartbeat(process, beat),
                clock=self._clock,
                kills=kills,
                group=group,
            )
            undo.callback(process.close)
            undo.callback(self._unwatch, process)
            self._selector.register(process.probe, selectors.EVENT_READ, process)
            self._selector.register(process.pidfd, selectors.EVENT_READ, process)
            undo.pop_all()
        return process

    def _new_group(self, undo: contextlib.ExitStack) -> WorkerGroup | None:
        """Create the control group of a worker; it is removed when the start fails. Raises OSError."""
        if self._groups is None:
            return None
        group = self._groups.create(self._memory_limit)
        undo.callback(self._groups.discard, group)
        return group

    def _unwatch(self, process: WorkerProcess) -> None:
        for fileobj in (process.probe, process.pidfd):
            with contextlib.suppress(KeyError):
                self._selector.unregister(fileobj)

    def _stop_all(self) -> None:
        """Stop all workers in parallel when the controller ends.

        Together they have STOP_GRACE_S seconds.
        """
        with self._lock:
            both = [(slot, managed) for _, slot in self._all_slots() for managed in (slot.worker, slot.successor)]
            running = [(slot, managed, managed.process.child) for slot, managed in both if managed.process is not None]
            for _, _, child in running:
                child.send(signal.SIGTERM)
            deadline = self._clock() + STOP_GRACE_S
            for slot, managed, child in running:
                self._reap(slot, managed, child.stop(max(0.0, deadline - self._clock())), deadline)
            self._remove_groups()
        for end in (self._selector, self._wake_in, self._wake_out):
            end.close()

    def _remove_groups(self) -> None:
        """Wait until the children of the workers have ended, and remove the groups.

        The children die with the workers.
        """
        deadline = time.monotonic() + GROUP_REMOVAL_TIMEOUT_S
        while self._groups is not None and not self._groups.sweep() and time.monotonic() < deadline:
            time.sleep(0.02)
