"""Workers as processes of this machine: one per slot, restarted with back-off, watched over a socket pair.

One thread owns every slot: it sleeps on the probes' sockets and the children's pidfds, so a death or a heartbeat is
seen at once and nothing is polled. Workers die with this process (children.py); the next start makes them again.
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
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from headwater.children import Child, spawn
from headwater.errors import OrchestratorUnavailable
from headwater.model.deployment import WorkerStatus
from headwater.model.worker import WorkerSet
from headwater.orchestrators.slot import Slot

log = structlog.get_logger(__name__)

TICK_S = 0.2
STOP_GRACE_S = 10.0
MAX_LOG_BYTES = 4 << 20

Command = Callable[[Path, int, int], Sequence[str]]
"""(spec file, slot, probe fd) → argv."""


class ProcessOrchestrator:
    """Implements orchestrators.base.Orchestrator. `run_dir` (0700) holds specs and logs, a folder per deployment."""

    def __init__(self, run_dir: Path, command: Command, clock: Callable[[], float] = time.monotonic) -> None:
        self._run_dir = run_dir
        self._command = command
        self._clock = clock
        self._lock = threading.RLock()
        self._sets: dict[str, WorkerSet] = {}
        self._slots: dict[tuple[str, int], Slot] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._closed = threading.Event()
        shutil.rmtree(run_dir, ignore_errors=True)
        run_dir.mkdir(mode=0o700, parents=True)
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)
        self._thread.start()

    def ensure(self, wanted: WorkerSet) -> None:
        with self._lock:
            self._check_open()
            known = self._sets.get(wanted.deployment_id)
            if known is not None and known.spec_hash == wanted.spec_hash and known.slots == wanted.slots:
                return
            self._write_spec(wanted)
            self._sets[wanted.deployment_id] = wanted
            for number in range(wanted.slots):
                key = (wanted.deployment_id, number)
                self._slots.setdefault(key, Slot(f"{wanted.deployment_id}-{number}"))
            for (deployment_id, number), slot in self._slots.items():
                if deployment_id == wanted.deployment_id:
                    slot.want(wanted.spec_hash if number < wanted.slots else None)
        self._wake()

    def drop(self, deployment_id: str) -> bool:
        with self._lock:
            self._check_open()
            self._sets.pop(deployment_id, None)
            slots = [slot for (owner, _), slot in self._slots.items() if owner == deployment_id]
            for slot in slots:
                slot.want(None)
            if not slots:
                shutil.rmtree(self._folder(deployment_id), ignore_errors=True)
        self._wake()
        return not slots

    def status(self, deployment_id: str) -> Sequence[WorkerStatus]:
        with self._lock:
            self._check_open()
            return [slot.status() for (owner, _), slot in sorted(self._slots.items()) if owner == deployment_id]

    def running(self) -> frozenset[str]:
        with self._lock:
            self._check_open()
            return frozenset(owner for owner, _ in self._slots)

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._wake()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed.is_set() or not self._thread.is_alive():
            raise OrchestratorUnavailable("The process orchestrator has stopped; restart the controller.")

    def _folder(self, deployment_id: str) -> Path:
        return self._run_dir / deployment_id

    def _spec_path(self, wanted: WorkerSet) -> Path:
        return self._folder(wanted.deployment_id) / f"spec-{wanted.spec_hash}.json"

    def _write_spec(self, wanted: WorkerSet) -> None:
        path = self._spec_path(wanted)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(wanted.spec.model_dump_json())

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_in.send(b"!")

    def _run(self) -> None:
        while not self._closed.is_set():
            for key, _ in self._selector.select(TICK_S):
                self._handle(key)
            with self._lock:
                for key_ in list(self._slots):
                    self._advance(key_)
        self._stop_all()

    def _handle(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            with contextlib.suppress(BlockingIOError):
                self._wake_out.recv(4096)
            return
        slot: Slot = key.data
        with self._lock:
            if slot.probe is not None and key.fileobj is slot.probe and not slot.read_heartbeats():
                self._selector.unregister(slot.probe)  # the worker closed it; its pidfd tells the rest

    def _advance(self, key: tuple[str, int]) -> None:
        """Move one slot towards what is wanted of it."""
        slot, now = self._slots[key], self._clock()
        if slot.child is not None:
            status = slot.child.poll()
            if status is None:
                self._stop_if_unwanted(slot, now)
                return
            self._reap(slot, status, now)
        if slot.wanted_hash is None:
            del self._slots[key]
        elif now >= slot.restart_at:
            self._start(key, slot)

    def _stop_if_unwanted(self, slot: Slot, now: float) -> None:
        if slot.wanted_hash == slot.running_hash or slot.child is None:
            return
        if slot.stop_by is None:
            slot.stop_by = now + STOP_GRACE_S
            slot.child.send(signal.SIGTERM)
        elif now >= slot.stop_by:
            log.warning("worker ignored SIGTERM; it is killed", worker=slot.name, grace_s=STOP_GRACE_S)
            slot.child.send(signal.SIGKILL)

    def _reap(self, slot: Slot, status: int, now: float) -> None:
        if slot.probe is not None:
            slot.read_heartbeats()
        for fileobj in (slot.probe, slot.pidfd):
            if fileobj is not None:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(fileobj)
        slot.ended(status, now)

    def _start(self, key: tuple[str, int], slot: Slot) -> None:
        wanted = self._sets[key[0]]
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs, self._log_file(key).open("ab") as output:
                argv = self._command(self._spec_path(wanted), key[1], theirs.fileno())
                child = spawn(argv, stdout=subprocess.DEVNULL, stderr=output, pass_fds=[theirs.fileno()])
            self._watch(slot, child, ours)
        except OSError as error:  # no process, no file descriptor: waits like a death
            ours.close()
            log.error("worker can't be started", worker=slot.name, error=str(error))
            slot.failed_to_start(f"can't start a process: {error}", self._clock())

    def _watch(self, slot: Slot, child: Child, probe: socket.socket) -> None:
        pidfd = os.pidfd_open(child.pid)
        slot.started(child, pidfd, probe)
        self._selector.register(probe, selectors.EVENT_READ, slot)
        self._selector.register(pidfd, selectors.EVENT_READ, slot)

    def _log_file(self, key: tuple[str, int]) -> Path:
        path = self._folder(key[0]) / f"worker-{key[1]}.log"
        if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        return path

    def _stop_all(self) -> None:
        """End of the controller: all workers at once, each with the whole grace time."""
        with self._lock:
            running = [(slot, slot.child) for slot in self._slots.values() if slot.child is not None]
            for _, child in running:
                child.send(signal.SIGTERM)
            deadline = self._clock() + STOP_GRACE_S
            for slot, child in running:
                self._reap(slot, child.stop(max(0.0, deadline - self._clock())), deadline)
        for end in (self._selector, self._wake_in, self._wake_out):
            end.close()
