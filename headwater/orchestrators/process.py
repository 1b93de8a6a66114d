"""Runs workers as local processes, one per slot.

A worker sends heartbeats over a socket pair, and is restarted with back-off when it ends. A single thread manages all
slots. It waits on the sockets and the pidfds of the workers, so it notices deaths and heartbeats at once. Workers die
with this process (children.py); the next start creates them again.

At most MAX_STARTING workers start at once. Restarts after a death of the worker (`SlotRole.deaths`) are not limited.

A change of the spec starts a successor beside each worker. When all successors of a set are prepared, the workers
receive SIGTERM. When a worker has ended, its successor receives JOIN and has the same static group membership, so no
partition is reassigned. Workers that have no successor end last, and leave the consumer group.
"""

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from headwater.child_logs import captured_output
from headwater.children import set_niceness, spawn
from headwater.errors import OrchestratorUnavailable
from headwater.loop_health import LoopHealth
from headwater.model.deployment import LogLine, ObservedWorker
from headwater.model.progress_clock import STUCK_AFTER_S
from headwater.model.reading_plan import ReadingPlan
from headwater.model.worker_protocol import Heartbeat, WorkerSnapshot
from headwater.model.worker_spec import WorkerSet
from headwater.orchestrators.cgroups import WorkerCgroup, WorkerCgroups, write_base_file
from headwater.orchestrators.memory_usage import OomKillDetector, own_cgroup_counter, resident_bytes
from headwater.orchestrators.slot import SCRIPTS_KILLED_MESSAGE, Slot, SlotRole
from headwater.orchestrators.worker_process import WorkerProcess

log = structlog.get_logger(__name__)

RECONCILE_INTERVAL_S = 0.2
"""The longest wait for a reconciliation of all slots. The ends of back-offs and stop deadlines cause no event."""
MAX_RETRY_DELAY_S = 2.0
"""The maximum wait after an error of the thread. The wait delays the restart of workers."""
STOP_GRACE_S = 10.0
"""How long a worker may take to end after SIGTERM. Then it is killed."""
MEMORY_CHECK_INTERVAL_S = 1.0
MAX_LOG_BYTES = 4 << 20
_CORES = len(os.sched_getaffinity(0))
MAX_STARTING = 2 * _CORES
"""How many workers may start at once.

A start takes about a second of CPU time. If all workers of a large pipeline started at once, the running ones could
send nothing to Kafka for longer than their session may last.
"""
MANY_WORKERS = 16 * _CORES
NICENESS_OF_MANY = 10
"""By how much the niceness of a worker is raised above that of this process. It is raised once for each worker, when
the worker has started and there are more than MANY_WORKERS slots.

Kafka, Valkey and the API on the same machine then have priority. Otherwise busy workers would leave Kafka so little CPU
time that workers lose their membership of the consumer group, and repeat records. With few workers, a lower priority
would only delay records. A start has the normal priority: on a busy machine, it would otherwise never end.
"""
CGROUP_REMOVAL_TIMEOUT_S = 2.0
"""How long `close` waits for the workers' control groups to become empty. The next start removes remaining ones."""

WorkerCommand = Callable[[Path, int, int, ReadingPlan], Sequence[str]]
"""Returns the command line of a worker: (spec file, slot, control socket fd, reading plan) → argv."""


class SlotId(NamedTuple):
    """Identifies a slot.

    Attributes:
        worker_set_id: The worker set.
        number: The number of the slot in the worker set, from 0.
    """

    worker_set_id: str
    number: int


class ProcessOrchestrator:
    """Implements orchestrators.base.Orchestrator.

    Args:
        run_dir: A directory for the specs and the logs, with a folder per worker set; created with mode 0700.
        command: Returns the command line of a worker.
        memory_limit: How many bytes a worker and its child processes may use together. When they use more, the worker
        is killed, or with control groups perhaps only the process of its scripts.
        clock: Returns monotonic seconds.
        environment: The environment of the workers. None means `children.inherited_environment()`.
        cgroups: Control groups for the workers. None means that the workers' memory is measured once a second.
    """

    def __init__(
        self,
        run_dir: Path,
        command: WorkerCommand,
        memory_limit: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        environment: Mapping[str, str] | None = None,
        cgroups: WorkerCgroups | None = None,
    ) -> None:
        self._environment = environment
        self._cgroups = cgroups
        self._memory_limit = memory_limit
        self._own_cgroup_oom_kills = OomKillDetector(clock, own_cgroup_counter())
        self._next_memory_check = self._next_reconciliation = 0.0
        self._free_starts = MAX_STARTING
        self._leads_until = float("-inf")
        self._run_dir = run_dir
        self._command = command
        self._clock = clock
        self._lock = threading.RLock()
        self._running_sets: dict[str, WorkerSet] = {}
        self._pending_sets: dict[str, WorkerSet] = {}
        self._slots: dict[str, dict[int, Slot]] = {}
        self._logs_of_removed_slots: dict[str, list[LogLine]] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_sender.setblocking(False)
        self._wake_receiver.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, None)
        self._closed = threading.Event()
        shutil.rmtree(run_dir, ignore_errors=True)
        run_dir.mkdir(mode=0o700, parents=True)
        if cgroups is not None:
            write_base_file(run_dir, cgroups)
        self._loop_health = LoopHealth("managing workers")
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)
        self._thread.start()

    def ensure(self, wanted: WorkerSet) -> None:
        with self._lock:
            self._check_open()
            running = self._running_sets.get(wanted.id)
            if running is not None and running.spec_hash == wanted.spec_hash:
                self._cancel_replacement(wanted.id)
                self._resize(wanted)
            elif self._pending_sets.get(wanted.id) != wanted:
                self._start_or_replace(wanted)
            self._wake()

    def _start_or_replace(self, wanted: WorkerSet) -> None:
        """Begin to start a worker set, or to replace the running one that has the same id."""
        is_replacement = wanted.id in self._running_sets
        self._write_spec(wanted)
        worker_sets = self._pending_sets if is_replacement else self._running_sets
        worker_sets[wanted.id] = wanted
        for number, slot in self._with_new_slots(wanted):
            role = slot.successor if is_replacement else slot.worker
            role.set_wanted_spec(wanted.spec_hash if number < wanted.slots else None)

    def _resize(self, wanted: WorkerSet) -> None:
        """Start or stop workers of a running set, so that it has the wanted number of slots.

        During a hand-over, nothing is changed: a rebalance could make Kafka reject the last commits of workers that are
        being replaced.
        """
        if wanted.slots == self._running_sets[wanted.id].slots or self._is_handing_over(wanted.id):
            return
        self._running_sets[wanted.id] = wanted
        for number, slot in self._with_new_slots(wanted):
            slot.worker.set_wanted_spec(wanted.spec_hash if number < wanted.slots else None)

    def _with_new_slots(self, wanted: WorkerSet) -> list[tuple[int, Slot]]:
        """Create the missing slots of a worker set, and return all its slots with their numbers.

        Each slot gets the quarantined positions of all slots (see OomHistory.set_quarantined_in_any_slot).
        """
        for number in range(wanted.slots):
            self._slots.setdefault(wanted.id, {}).setdefault(number, Slot(f"{wanted.id}-{number}"))
        slots = self._slots_of(wanted.id)
        quarantined = [position for _, slot in slots for position in slot.oom_history.quarantined]
        for _, slot in slots:
            slot.oom_history.set_quarantined_in_any_slot(quarantined)
        return slots

    def _slots_of(self, worker_set_id: str) -> list[tuple[int, Slot]]:
        """Return the slots of a worker set with their numbers."""
        return sorted(self._slots.get(worker_set_id, {}).items())

    def _all_slots(self) -> Iterator[tuple[str, Slot]]:
        """Return all slots, each with the id of its worker set."""
        return ((worker_set_id, slot) for worker_set_id, slots in self._slots.items() for slot in slots.values())

    def _cancel_replacement(self, worker_set_id: str) -> None:
        """Cancel the replacement of a running set: stop the successors."""
        if self._pending_sets.pop(worker_set_id, None) is not None:
            for _, slot in self._slots_of(worker_set_id):
                slot.successor.set_wanted_spec(None)

    def set_lease_remaining(self, remaining_s: float) -> None:
        self._leads_until = self._clock() + remaining_s

    def stop_workers(self, worker_set_id: str) -> bool:
        with self._lock:
            self._check_open()
            self._running_sets.pop(worker_set_id, None)
            self._pending_sets.pop(worker_set_id, None)
            slots = self._slots_of(worker_set_id)
            for _, slot in slots:
                slot.worker.set_wanted_spec(None)
                slot.successor.set_wanted_spec(None)
            if not slots:
                shutil.rmtree(self._folder(worker_set_id), ignore_errors=True)
            self._wake()
        return not slots

    def status(self, worker_set_id: str) -> Sequence[ObservedWorker]:
        with self._lock:
            self._check_open()
            slots = [slot for _, slot in self._slots_of(worker_set_id)]
            slots_with_worker = [slot for slot in slots if slot.worker.wanted_spec_hash or slot.worker.process]
            return [slot.status(slot.worker, self._clock()) for slot in slots_with_worker]

    def successors(self, worker_set_id: str) -> Sequence[ObservedWorker]:
        with self._lock:
            self._check_open()
            slots = [slot for _, slot in self._slots_of(worker_set_id) if slot.successor.wanted_spec_hash]
            return [slot.status(slot.successor, self._clock()) for slot in slots]

    def take_logs(self) -> dict[str, list[LogLine]]:
        with self._lock:
            self._check_open()
            logs, self._logs_of_removed_slots = self._logs_of_removed_slots, {}
            for worker_set_id, slot in self._all_slots():
                if slot.lines:
                    logs.setdefault(worker_set_id, []).extend(slot.lines)
                    slot.lines.clear()
            return {worker_set_id: sorted(lines, key=lambda line: line.time) for worker_set_id, lines in logs.items()}

    def worker_snapshots(self) -> Sequence[WorkerSnapshot]:
        with self._lock:
            self._check_open()
            now = self._clock()
            return [
                WorkerSnapshot(
                    slot.name,
                    self._running_sets[worker_set_id].spec,
                    None if slot.worker.process is None else slot.worker.process.heartbeat,
                    is_ready=slot.status(slot.worker, now).is_ready,
                )
                for worker_set_id, slot in self._all_slots()
                if worker_set_id in self._running_sets and slot.worker.wanted_spec_hash is not None
            ]

    def worker_set_ids(self) -> frozenset[str]:
        with self._lock:
            self._check_open()
            return frozenset(self._slots)

    @property
    def current_failure(self) -> str:
        return self._loop_health.error

    def close(self) -> None:
        with self._lock:
            if not self._closed.is_set():
                self._closed.set()
                self._wake()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed.is_set() or not self._thread.is_alive():
            raise OrchestratorUnavailable("The process orchestrator has stopped; restart the controller.")

    def _folder(self, worker_set_id: str) -> Path:
        return self._run_dir / worker_set_id

    def _spec_path(self, worker_set_id: str, spec_hash: str) -> Path:
        return self._folder(worker_set_id) / f"spec-{spec_hash}.json"

    def _write_spec(self, wanted: WorkerSet) -> None:
        """Write a spec file, and remove the worker set's unneeded spec files.

        Unneeded files are removed because they contain scripts and credentials.
        """
        path = self._spec_path(wanted.id, wanted.spec_hash)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        needed = {spec_hash for _, slot in self._slots_of(wanted.id) for spec_hash in slot.spec_hashes}
        for old_path in path.parent.glob("spec-*.json"):
            if old_path.stem.removeprefix("spec-") not in needed:
                old_path.unlink()
        path.touch(mode=0o600)
        path.write_text(wanted.spec.model_dump_json(), "utf-8")

    def _wake(self) -> None:
        """Wake the thread.

        Call this under the lock, since the thread closes the sockets when it ends.
        """
        with contextlib.suppress(BlockingIOError):
            self._wake_sender.send(b"!")

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._run_once()
                self._loop_health.on_success()
            except Exception as error:  # noqa: BLE001  # only this thread manages the workers
                self._closed.wait(min(self._loop_health.on_error(error), MAX_RETRY_DELAY_S))
        self._stop_all()

    def _run_once(self) -> None:
        """Wait for an event, and reconcile all slots if that is required or due.

        A heartbeat with an unchanged state does not require a reconciliation. If each heartbeat caused one, the CPU
        time would grow with the square of the number of workers.
        """
        events = self._selector.select(max(0.0, self._next_reconciliation - self._clock()))
        requires_reconciliation = [self._handle_ready_descriptor(key) for key, _ in events]
        if any(requires_reconciliation) or self._clock() >= self._next_reconciliation:
            self._next_reconciliation = self._clock() + RECONCILE_INTERVAL_S
            with self._lock:
                self._reconcile()

    def _reconcile(self) -> None:
        self._free_starts = MAX_STARTING - sum(slot.starting_count for _, slot in self._all_slots())
        for slot_id in [
            SlotId(worker_set_id, number) for worker_set_id, slots in self._slots.items() for number in slots
        ]:
            self._reconcile_slot(slot_id)
        for worker_set_id in list(self._pending_sets):
            self._hand_over_if_prepared(worker_set_id)
        self._enforce_memory_limits()

    def _handle_ready_descriptor(self, key: selectors.SelectorKey) -> bool:
        """Read from a ready descriptor. Return whether the event requires a reconciliation."""
        if key.data is None:
            with contextlib.suppress(BlockingIOError):
                self._wake_receiver.recv(4096)
            return True
        process: WorkerProcess = key.data
        if key.fileobj is not process.control_socket:
            return True
        with self._lock:
            state_before = process.reported_state
            if not process.read_heartbeats():
                # The worker has closed the socket. Its pidfd becomes ready when it ends.
                self._selector.unregister(process.control_socket)
            return process.reported_state != state_before

    def _hand_over_if_prepared(self, worker_set_id: str) -> None:
        """Begin the hand-over when all successors of the worker set are prepared."""
        wanted = self._pending_sets[worker_set_id]
        if all(self._slots[worker_set_id][number].has_prepared_successor for number in range(wanted.slots)):
            self._running_sets[worker_set_id] = self._pending_sets.pop(worker_set_id)
            for _, slot in self._slots_of(worker_set_id):
                slot.hand_over()
            self._wake()

    def _is_handing_over(self, worker_set_id: str) -> bool:
        """Whether a hand-over is in progress.

        During a hand-over, no worker leaves the consumer group: after a rebalance, Kafka could reject the last commits
        of workers that are being replaced.
        """
        return any(slot.is_handing_over for _, slot in self._slots_of(worker_set_id))

    def _enforce_memory_limits(self) -> None:
        """Kill the workers that exceed the limit, unless the kernel limits them in control groups."""
        now = self._clock()
        if now < self._next_memory_check:
            return
        self._next_memory_check = now + MEMORY_CHECK_INTERVAL_S
        self._own_cgroup_oom_kills.poll()
        if self._cgroups is not None:
            self._cgroups.sweep()
        for _, slot in self._all_slots():
            for role in slot.roles:
                if role.process is not None:
                    self._enforce_memory_limit(slot, role.process)

    def _enforce_memory_limit(self, slot: Slot, process: WorkerProcess) -> None:
        if process.cgroup is None:
            if resident_bytes(process.child.pid) > self._memory_limit:
                process.was_killed_over_limit = True
                process.child.send(signal.SIGKILL)
            return
        process.oom_kills.poll()
        if process.oom_kills.take_survived_kill():
            slot.log("warning", SCRIPTS_KILLED_MESSAGE)

    def _reconcile_slot(self, slot_id: SlotId) -> None:
        """Reconcile the processes of a slot.

        Reaps the ended processes of the slot, promotes its successor, and stops or starts its processes.
        """
        slot, now = self._slots[slot_id.worker_set_id][slot_id.number], self._clock()
        for role in slot.roles:
            if role.process is not None and (exit_status := role.process.child.poll()) is not None:
                self._reap(slot, role, exit_status, now)
        if slot.promote() and slot.worker.process is not None:
            slot.worker.process.join_group()
        slot.clear_dead_successor()
        leaves_group = slot.worker.wanted_spec_hash is None
        if not (leaves_group and self._is_handing_over(slot_id.worker_set_id)):
            self._stop_if_unwanted(slot, slot.worker, now)
        self._stop_if_unwanted(slot, slot.successor, now)
        if slot.is_empty:
            self._remove_slot(slot_id)
            return
        for role in slot.roles:
            self._start_if_due(slot_id, slot, role, now)

    def _remove_slot(self, slot_id: SlotId) -> None:
        """Remove an empty slot, and keep its log lines."""
        worker_set_id, number = slot_id
        slots = self._slots[worker_set_id]
        slot = slots.pop(number)
        if not slots:
            del self._slots[worker_set_id]
        self._logs_of_removed_slots.setdefault(worker_set_id, []).extend(slot.lines)

    def _stop_if_unwanted(self, slot: Slot, role: SlotRole, now: float) -> None:
        """Stop a process that does not have the wanted spec, and kill a stuck process."""
        process = role.process
        if process is None:
            return
        if process.stop_deadline is None:
            if role.runs_wanted_spec:
                self._kill_if_stuck(slot, process)
                return
            process.stop_deadline = now + STOP_GRACE_S
            if role.wanted_spec_hash is None:
                process.leave_group()
            process.child.send(signal.SIGTERM)
            return
        if role.wanted_spec_hash is None:  # a teardown during a hand-over
            process.leave_group()
        if now >= process.stop_deadline and not process.was_killed_late:
            log.warning(
                "worker has not ended in time after SIGTERM; it is killed", worker=slot.name, grace_s=STOP_GRACE_S
            )
            process.was_killed_late = True
            process.child.send(signal.SIGKILL)

    def _kill_if_stuck(self, slot: Slot, process: WorkerProcess) -> None:
        if process.is_stuck and not process.was_killed_stuck:
            log.warning("worker makes no progress; it is killed", worker=slot.name, after_s=STUCK_AFTER_S)
            process.was_killed_stuck = True
            process.child.send(signal.SIGKILL)

    def _reap(self, slot: Slot, role: SlotRole, exit_status: int, now: float) -> None:
        """Record the end of a process, and free its resources."""
        process = role.process
        assert process is not None
        process.read_last_heartbeats()
        self._unwatch(process)
        process.oom_kills.poll()
        if process.cgroup is not None and process.oom_kills.is_recent:
            process.was_killed_over_limit = process.was_killed_over_limit or process.cgroup.reached_limit()
        slot.record_exit(role, exit_status, now)
        if self._cgroups is not None and process.cgroup is not None:
            self._cgroups.discard(process.cgroup)

    def _start_if_due(self, slot_id: SlotId, slot: Slot, role: SlotRole, now: float) -> None:
        """Start the wanted process, if it does not run and its back-off is over.

        A worker receives JOIN at once. A successor receives JOIN when it is promoted.
        """
        if role.wanted_spec_hash is None or role.process is not None or now < role.restart_at:
            return
        if role.is_fenced and now >= self._leads_until:
            return
        if self._free_starts <= 0 and not role.deaths:
            return
        self._free_starts -= 1
        try:
            role.process = self._start(slot_id, slot, role.wanted_spec_hash)
        except OSError as error:  # the system has no process or descriptor left
            log.error("worker can't be started", worker=slot.name, error=str(error))
            slot.record_death(role, f"can't start a process: {error.strerror or error}", self._clock())
        else:
            if role is slot.worker:
                role.process.join_group()

    def _start(self, slot_id: SlotId, slot: Slot, spec_hash: str) -> WorkerProcess:
        """Start a worker process.

        When this raises OSError, no process runs and all descriptors are closed.
        """
        with contextlib.ExitStack() as undo:
            cgroup = self._new_cgroup(undo)
            control_socket, worker_end = socket.socketpair()
            undo.enter_context(control_socket).setblocking(False)
            reading_plan = slot.oom_history.reading_plan(spec_hash)
            spec_path = self._spec_path(slot_id.worker_set_id, spec_hash)
            log_path = self._folder(slot_id.worker_set_id) / f"worker-{slot_id.number}.log"
            with worker_end, captured_output(log_path, MAX_LOG_BYTES) as output:
                child = spawn(
                    self._command(spec_path, slot_id.number, worker_end.fileno(), reading_plan),
                    env=self._environment,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                    pass_fds=[worker_end.fileno()],
                    cgroup_procs=None if cgroup is None else cgroup.procs_file,
                )
            undo.callback(child.stop, 0)
            process = WorkerProcess(
                spec_hash=spec_hash,
                child=child,
                control_socket=control_socket,
                on_heartbeat=lambda heartbeat: self._on_heartbeat(slot, process, heartbeat),
                clock=self._clock,
                oom_kills=self._own_cgroup_oom_kills if cgroup is None else OomKillDetector(self._clock, cgroup.kills),
                cgroup=cgroup,
            )
            undo.callback(process.close)
            undo.callback(self._unwatch, process)
            self._selector.register(process.control_socket, selectors.EVENT_READ, process)
            self._selector.register(process.pidfd, selectors.EVENT_READ, process)
            undo.pop_all()
        return process

    def _on_heartbeat(self, slot: Slot, process: WorkerProcess, heartbeat: Heartbeat) -> None:
        slot.on_heartbeat(process, heartbeat)
        has_started = heartbeat.state != "starting" and process.child.poll() is None
        if process.has_low_priority or not has_started or sum(map(len, self._slots.values())) <= MANY_WORKERS:
            return
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + NICENESS_OF_MANY
        process.has_low_priority = set_niceness(process.child.pid, niceness)

    def _new_cgroup(self, undo: contextlib.ExitStack) -> WorkerCgroup | None:
        """Create the control group of a worker. Raises OSError.

        `undo` removes the cgroup when the start fails.
        """
        if self._cgroups is None:
            return None
        cgroup = self._cgroups.create(self._memory_limit)
        undo.callback(self._cgroups.discard, cgroup)
        return cgroup

    def _unwatch(self, process: WorkerProcess) -> None:
        for fileobj in (process.control_socket, process.pidfd):
            with contextlib.suppress(KeyError):
                self._selector.unregister(fileobj)

    def _stop_all(self) -> None:
        """Stop all workers in parallel when the controller ends.

        Workers that still run after STOP_GRACE_S seconds are killed.
        """
        with self._lock:
            running = [
                (slot, role, role.process.child)
                for _, slot in self._all_slots()
                for role in slot.roles
                if role.process is not None
            ]
            for _, _, child in running:
                child.send(signal.SIGTERM)
            deadline = self._clock() + STOP_GRACE_S
            for slot, role, child in running:
                self._reap(slot, role, child.stop(max(0.0, deadline - self._clock())), deadline)
            self._remove_cgroups()
        for resource in (self._selector, self._wake_sender, self._wake_receiver):
            resource.close()

    def _remove_cgroups(self) -> None:
        """Wait until the children of the workers have ended, and remove the cgroups.

        The kernel ends the children when their worker has ended.
        """
        deadline = time.monotonic() + CGROUP_REMOVAL_TIMEOUT_S
        while self._cgroups is not None and not self._cgroups.sweep() and time.monotonic() < deadline:
            time.sleep(0.02)
