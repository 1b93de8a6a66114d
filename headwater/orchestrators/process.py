"""Workers as processes of this machine: one per slot, restarted with back-off, watched over a socket pair.

One thread owns every slot: it sleeps on the probes' sockets and the children's pidfds, so a death or a heartbeat is
seen at once and nothing is polled. Workers die with this process (children.py); the next start makes them again.

A change starts a successor beside each worker. When all successors of a set are prepared, the workers receive SIGTERM,
and as each has ended, its successor receives JOIN and takes over the static group membership, so no partition moves.
Workers that have no successor end last, and leave the group.
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

from headwater.background import Loop
from headwater.child_logs import capturing
from headwater.children import spawn
from headwater.errors import OrchestratorUnavailable
from headwater.model.deployment import LogLine, WorkerStatus
from headwater.model.worker import JOIN, LEAVE, Pulse, ReadingPlan, WorkerSet
from headwater.orchestrators.cgroups import WorkerGroup, WorkerGroups, write_base_file
from headwater.orchestrators.running import STUCK_AFTER_S, Running
from headwater.orchestrators.slot import SCRIPTS_KILLED, Role, Slot
from headwater.orchestrators.usage import KernelKills, kills_in_own_group, resident_bytes

log = structlog.get_logger(__name__)

TICK_S = 0.2
LONGEST_WAIT_S = 2.0
"""The longest wait after a failed turn, by which the restart of a worker that died may be delayed."""
STOP_GRACE_S = 10.0
MEMORY_EVERY_S = 1.0
MAX_LOG_BYTES = 4 << 20
GROUPS_GRACE_S = 2.0
"""How long the end waits for the workers' control groups to become empty; the next start removes what is left."""

Command = Callable[[Path, int, int, ReadingPlan], Sequence[str]]
"""(spec file, slot, probe fd, reading plan) → argv."""


class ProcessOrchestrator:
    """Implements orchestrators.base.Orchestrator. `run_dir` (0700) holds specs and logs, a folder per deployment.

    memory_limit: Bytes that a worker may use, with its child processes; a worker that uses more is killed.
    environment: The environment of the workers; without one, `children.inherited()`. groups: Control groups for the
    workers; without them, the orchestrator measures the workers' memory once a second.
    """

    def __init__(
        self,
        run_dir: Path,
        command: Command,
        memory_limit: int,
        clock: Callable[[], float] = time.monotonic,
        environment: Mapping[str, str] | None = None,
        groups: WorkerGroups | None = None,
    ) -> None:
        self._environment = environment
        self._groups = groups
        self._memory_limit = memory_limit
        self._kills_in_own_group = KernelKills(clock, kills_in_own_group())
        self._look_at_memory_at = 0.0
        self._leads_until = float("-inf")
        self._run_dir = run_dir
        self._command = command
        self._clock = clock
        self._lock = threading.RLock()
        self._sets: dict[str, WorkerSet] = {}
        self._next: dict[str, WorkerSet] = {}
        self._slots: dict[str, dict[int, Slot]] = {}
        self._left: dict[str, list[LogLine]] = {}
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
        self._loop = Loop("looking after workers")
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)
        self._thread.start()

    def ensure(self, wanted: WorkerSet) -> None:
        with self._lock:
            self._check_open()
            deployment_id = wanted.deployment_id
            known = self._sets.get(deployment_id)
            if known == wanted:
                self._call_off(known)
            elif self._next.get(deployment_id) != wanted:
                self._write_spec(wanted)
                if known is None:
                    self._sets[deployment_id] = wanted
                else:
                    self._next[deployment_id] = wanted
                for number in range(wanted.slots):
                    slots = self._slots.setdefault(deployment_id, {})
                    slots.setdefault(number, Slot(f"{deployment_id}-{number}"))
                left_out = [each for _, slot in self._of(deployment_id) for each in slot.memory_deaths.quarantined]
                for number, slot in self._of(deployment_id):
                    slot.memory_deaths.suspect(left_out)
                    role = slot.worker if known is None else slot.successor
                    role.want(wanted.spec_hash if number < wanted.slots else None)
            self._wake()

    def _of(self, deployment_id: str) -> list[tuple[int, Slot]]:
        """The slots of a deployment, by number."""
        return sorted(self._slots.get(deployment_id, {}).items())

    def _all_slots(self) -> Iterator[tuple[str, Slot]]:
        """All slots, each with the id of its deployment."""
        return ((owner, slot) for owner, slots in self._slots.items() for slot in slots.values())

    def _call_off(self, running: WorkerSet) -> None:
        """Stop the successors of a set that stays."""
        if self._next.pop(running.deployment_id, None) is not None:
            for _, slot in self._of(running.deployment_id):
                slot.successor.want(None)

    def lead(self, for_s: float) -> None:
        self._leads_until = self._clock() + for_s

    def drop(self, deployment_id: str) -> bool:
        with self._lock:
            self._check_open()
            self._sets.pop(deployment_id, None)
            self._next.pop(deployment_id, None)
            slots = self._of(deployment_id)
            for _, slot in slots:
                slot.worker.want(None)
                slot.successor.want(None)
            if not slots:
                shutil.rmtree(self._folder(deployment_id), ignore_errors=True)
            self._wake()
        return not slots

    def status(self, deployment_id: str) -> Sequence[WorkerStatus]:
        with self._lock:
            self._check_open()
            slots = [slot for _, slot in self._of(deployment_id)]
            shown = [slot for slot in slots if slot.worker.spec_hash or slot.worker.running]
            return [slot.status(slot.worker, self._clock()) for slot in shown]

    def successors(self, deployment_id: str) -> Sequence[WorkerStatus]:
        with self._lock:
            self._check_open()
            slots = [slot for _, slot in self._of(deployment_id) if slot.successor.spec_hash]
            return [slot.status(slot.successor, self._clock()) for slot in slots]

    def take_logs(self) -> dict[str, list[LogLine]]:
        with self._lock:
            self._check_open()
            taken, self._left = self._left, {}
            for deployment_id, slot in self._all_slots():
                if slot.lines:
                    taken.setdefault(deployment_id, []).extend(slot.lines)
                    slot.lines.clear()
            return {owner: sorted(lines, key=lambda line: line.time) for owner, lines in taken.items()}

    def pulses(self) -> Sequence[Pulse]:
        with self._lock:
            self._check_open()
            workers = [(self._sets[owner], slot) for owner, slot in self._all_slots() if owner in self._sets]
            now = self._clock()
            return [
                Pulse(
                    slot.name,
                    wanted.spec,
                    None if slot.worker.running is None else slot.worker.running.heartbeat,
                    is_ready=slot.status(slot.worker, now).is_ready,
                )
                for wanted, slot in workers
                if slot.worker.spec_hash is not None
            ]

    def running(self) -> frozenset[str]:
        with self._lock:
            self._check_open()
            return frozenset(self._slots)

    @property
    def failing(self) -> str:
        return self._loop.failing

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
        """Write a spec file, and remove those that no slot needs: each holds scripts and credentials of a revision."""
        path = self._spec_path(wanted.deployment_id, wanted.spec_hash)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        needed = {spec_hash for _, slot in self._of(wanted.deployment_id) for spec_hash in slot.spec_hashes}
        for old in path.parent.glob("spec-*.json"):
            if old.stem.removeprefix("spec-") not in needed:
                old.unlink()
        path.touch(mode=0o600)
        path.write_text(wanted.spec.model_dump_json())

    def _wake(self) -> None:
        """Wake the thread. Called under the lock, since the thread closes the sockets when it ends."""
        with contextlib.suppress(BlockingIOError):
            self._wake_in.send(b"!")

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._turn()
                self._loop.succeeded()
            except Exception as error:  # noqa: BLE001  # no other thread watches the workers
                self._closed.wait(min(self._loop.failed(error), LONGEST_WAIT_S))
        self._stop_all()

    def _turn(self) -> None:
        for key, _ in self._selector.select(TICK_S):
            self._handle(key)
        with self._lock:
            for key_ in [(owner, number) for owner, slots in self._slots.items() for number in slots]:
                self._advance(key_)
            for deployment_id in list(self._next):
                self._hand_over_if_prepared(deployment_id)
            self._look_at_memory()

    def _handle(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            with contextlib.suppress(BlockingIOError):
                self._wake_out.recv(4096)
            return
        running: Running = key.data
        with self._lock:
            if key.fileobj is running.probe and not running.read_heartbeats():
                self._selector.unregister(running.probe)  # the worker closed it; its pidfd reports the end

    def _hand_over_if_prepared(self, deployment_id: str) -> None:
        wanted = self._next[deployment_id]
        if all(self._slots[deployment_id][number].is_prepared for number in range(wanted.slots)):
            self._sets[deployment_id] = self._next.pop(deployment_id)
            for _, slot in self._of(deployment_id):
                slot.hand_over()
            self._wake()

    def _hands_over(self, deployment_id: str) -> bool:
        """True while workers are replaced: a rebalance could refuse their last commits, so nobody leaves the group."""
        return any(slot.hands_over for _, slot in self._of(deployment_id))

    def _look_at_memory(self) -> None:
        """Kill workers over the limit, unless the kernel limits them in control groups."""
        now = self._clock()
        if now < self._look_at_memory_at:
            return
        self._look_at_memory_at = now + MEMORY_EVERY_S
        self._kills_in_own_group.look()
        if self._groups is not None:
            self._groups.sweep()
        for _, slot in self._all_slots():
            for running in (role.running for role in (slot.worker, slot.successor) if role.running is not None):
                self._look_at_memory_of(slot, running)

    def _look_at_memory_of(self, slot: Slot, running: Running) -> None:
        if running.group is None:
            if resident_bytes(running.child.pid) > self._memory_limit:
                running.over_limit = True
                running.child.send(signal.SIGKILL)
            return
        running.kills.look()
        if running.kills.were_of_others():
            slot.log("warning", SCRIPTS_KILLED)

    def _advance(self, key: tuple[str, int]) -> None:
        """Move one slot towards what is wanted of it."""
        slots, now = self._slots[key[0]], self._clock()
        slot = slots[key[1]]
        for role in (slot.worker, slot.successor):
            if role.running is not None and (status := role.running.child.poll()) is not None:
                self._reap(slot, role, status, now)
        if slot.promote() and slot.worker.running is not None:
            slot.worker.running.send(JOIN)
        slot.forget_lost_successor()
        if slot.worker.spec_hash is not None or not self._hands_over(key[0]):
            self._stop_if_unwanted(slot, slot.worker, now)
        self._stop_if_unwanted(slot, slot.successor, now)
        if slot.is_empty:
            self._left.setdefault(key[0], []).extend(slot.lines)
            del slots[key[1]]
            if not slots:
                del self._slots[key[0]]
            return
        self._start_if_due(key, slot, slot.worker, now)
        self._start_if_due(key, slot, slot.successor, now)

    def _stop_if_unwanted(self, slot: Slot, role: Role, now: float) -> None:
        running = role.running
        if running is None:
            return
        if running.stop_by is None:
            if running.spec_hash == role.spec_hash:
                self._kill_if_stuck(slot, running)
                return
            running.stop_by = now + STOP_GRACE_S
            if role.spec_hash is None:
                running.send(LEAVE)
            running.child.send(signal.SIGTERM)
        elif now >= running.stop_by:
            log.warning("worker ignored SIGTERM; it is killed", worker=slot.name, grace_s=STOP_GRACE_S)
            running.child.send(signal.SIGKILL)

    def _kill_if_stuck(self, slot: Slot, running: Running) -> None:
        if running.is_stuck and not running.stuck:
            log.warning("worker makes no progress; it is killed", worker=slot.name, after_s=STUCK_AFTER_S)
            running.stuck = True
            running.child.send(signal.SIGKILL)

    def _reap(self, slot: Slot, role: Role, status: int, now: float) -> None:
        running = role.running
        assert running is not None
        running.read_last_heartbeats()
        self._unwatch(running)
        running.kills.look()
        if running.group is not None and running.kills.is_recent:
            running.over_limit = running.over_limit or running.group.reached_limit()
        slot.ended(role, status, now)
        if self._groups is not None and running.group is not None:
            self._groups.discard(running.group)

    def _start_if_due(self, key: tuple[str, int], slot: Slot, role: Role, now: float) -> None:
        if role.spec_hash is None or role.running is not None or now < role.restart_at:
            return
        if role.is_fenced and now >= self._leads_until:
            return
        try:
            role.running = self._start(key, slot, role.spec_hash)
        except OSError as error:  # no process, no file descriptor: waits like a death
            log.error("worker can't be started", worker=slot.name, error=str(error))
            slot.died(role, f"can't start a process: {error.strerror or error}", self._clock())
        else:
            if role is slot.worker:
                role.running.send(JOIN)

    def _start(self, key: tuple[str, int], slot: Slot, spec_hash: str) -> Running:
        """Raises OSError; nothing runs then, and nothing stays open."""
        with contextlib.ExitStack() as undo:
            group = self._new_group(undo)
            ours, theirs = socket.socketpair()
            undo.enter_context(ours).setblocking(False)
            with theirs, capturing(self._folder(key[0]) / f"worker-{key[1]}.log", MAX_LOG_BYTES) as output:
                child = spawn(
                    self._command(
                        self._spec_path(key[0], spec_hash),
                        key[1],
                        theirs.fileno(),
                        slot.memory_deaths.plan(spec_hash),
                    ),
                    env=self._environment,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                    pass_fds=[theirs.fileno()],
                    join=None if group is None else group.processes,
                )
            undo.callback(child.stop, 0)
            kills = self._kills_in_own_group if group is None else KernelKills(self._clock, group.kills)
            running = Running(spec_hash, child, ours, lambda beat: slot.heard(running, beat), self._clock, kills, group)
            undo.callback(running.close)
            undo.callback(self._unwatch, running)
            self._selector.register(running.probe, selectors.EVENT_READ, running)
            self._selector.register(running.pidfd, selectors.EVENT_READ, running)
            undo.pop_all()
        return running

    def _new_group(self, undo: contextlib.ExitStack) -> WorkerGroup | None:
        """A control group for a worker, removed when its start fails. Raises OSError."""
        if self._groups is None:
            return None
        group = self._groups.make(self._memory_limit)
        undo.callback(self._groups.discard, group)
        return group

    def _unwatch(self, running: Running) -> None:
        for fileobj in (running.probe, running.pidfd):
            with contextlib.suppress(KeyError):
                self._selector.unregister(fileobj)

    def _stop_all(self) -> None:
        """Stop all workers at once when the controller ends, each with the whole grace time."""
        with self._lock:
            roles = [(slot, role) for _, slot in self._all_slots() for role in (slot.worker, slot.successor)]
            running = [(slot, role, role.running.child) for slot, role in roles if role.running is not None]
            for _, _, child in running:
                child.send(signal.SIGTERM)
            deadline = self._clock() + STOP_GRACE_S
            for slot, role, child in running:
                self._reap(slot, role, child.stop(max(0.0, deadline - self._clock())), deadline)
            self._remove_groups()
        for end in (self._selector, self._wake_in, self._wake_out):
            end.close()

    def _remove_groups(self) -> None:
        """Remove the groups once the workers' child processes, which die with the workers, have left them."""
        deadline = time.monotonic() + GROUPS_GRACE_S
        while self._groups is not None and not self._groups.sweep() and time.monotonic() < deadline:
            time.sleep(0.02)
