"""One worker slot of the process orchestrator: what is wanted, what runs, and what `deploy/stats` says of it."""

import os
import signal
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from headwater.children import Backoff, Child
from headwater.model.deployment import Status, WorkerStatus
from headwater.model.worker import Heartbeat

CRASH_LOOP_DEATHS = 2
MAX_HEARTBEAT_BYTES = 1 << 20


@dataclass(slots=True)
class Slot:
    """Used under the orchestrator's lock. wanted_hash None means: stop for good."""

    name: str
    wanted_hash: str | None = None
    running_hash: str | None = None
    child: Child | None = None
    pidfd: int | None = None
    probe: socket.socket | None = None
    heartbeat: Heartbeat | None = None
    restart_at: float = 0.0
    stop_by: float | None = None
    deaths: int = 0
    deaths_in_a_row: int = 0
    reason: str = ""
    made_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    start_time: datetime | None = None
    backoff: Backoff = field(default_factory=Backoff)
    _unread: bytes = b""

    def want(self, spec_hash: str | None) -> None:
        """Say what should run. Another spec starts at once, whatever the last one did."""
        if spec_hash != self.wanted_hash:
            self.wanted_hash, self.restart_at, self.deaths_in_a_row = spec_hash, 0.0, 0
            self.backoff.reset()

    def started(self, child: Child, pidfd: int, probe: socket.socket) -> None:
        """Note a new process."""
        self.child, self.pidfd, self.probe = child, pidfd, probe
        self.running_hash, self.heartbeat, self.stop_by, self._unread = self.wanted_hash, None, None, b""
        self.start_time = datetime.now(UTC)

    def read_heartbeats(self) -> bool:
        """Take in what the worker wrote. False at the end of the stream."""
        assert self.probe is not None
        try:
            data = self.probe.recv(1 << 16)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        *lines, self._unread = (self._unread + data).split(b"\n")
        if lines:
            self._note(lines[-1])
        if len(self._unread) > MAX_HEARTBEAT_BYTES:
            self._unread = b""
        return bool(data)

    def _note(self, line: bytes) -> None:
        try:
            beat = Heartbeat.model_validate_json(line)
        except ValidationError as error:
            self.reason = f"the worker wrote a heartbeat that can't be read: {error.error_count()} faults"
            return
        self.heartbeat = beat
        self.reason = beat.reason
        if beat.committed_batches:
            self.backoff.reset()
            self.deaths_in_a_row = 0

    def ended(self, status: int, now: float) -> None:
        """Note the end of the process; an end that nobody asked for is a death, and waits before the next start."""
        expected = self.stop_by is not None
        self._close()
        if not expected:
            self._died(_describe(status, self.reason), now)

    def failed_to_start(self, reason: str, now: float) -> None:
        """Note a start that never became a process."""
        self._died(reason, now)

    def _died(self, reason: str, now: float) -> None:
        self.deaths += 1
        self.deaths_in_a_row += 1
        self.reason = reason
        self.restart_at = now + self.backoff.next_s()

    def _close(self) -> None:
        if self.probe is not None:
            self.probe.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
        self.child = self.pidfd = self.probe = self.heartbeat = self.running_hash = self.stop_by = None

    def status(self) -> WorkerStatus:
        """The slot in the words of `deploy/stats`."""
        state = self._state()
        ready = state is Status.RUNNING and self.heartbeat is not None and self.heartbeat.state == "ready"
        return WorkerStatus(
            name=self.name,
            status=state,
            is_ready=ready,
            is_crash_looping=state is Status.CRASH_LOOP_BACK_OFF,
            restart_count=self.deaths,
            start_time=self.start_time or self.made_at,
            reason=self.reason,
            spec_hash=self.running_hash or "",
        )

    def _state(self) -> Status:
        if self.child is None:
            return Status.CRASH_LOOP_BACK_OFF if self.deaths_in_a_row >= CRASH_LOOP_DEATHS else Status.PENDING
        if self.stop_by is not None or self.wanted_hash is None:
            return Status.TERMINATING
        return Status.PENDING if self.heartbeat is None else Status.RUNNING


def _describe(status: int, last_reason: str) -> str:
    """Why a worker ended, from its wait status and what it said last."""
    ended = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return f"{ended}; it last said: {last_reason}" if last_reason else ended
