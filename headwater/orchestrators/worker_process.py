"""A worker process, and the socket pair between the worker and the process orchestrator."""

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from headwater.children import Child
from headwater.model.progress_clock import QUIET_AFTER_S, STUCK_AFTER_S, ProgressClock
from headwater.model.reading_plan import IsolationStatus
from headwater.model.worker_protocol import JOIN, LEAVE, Heartbeat
from headwater.orchestrators.cgroups import WorkerCgroup
from headwater.orchestrators.memory_usage import OomKillDetector

START_TIMEOUT_S = 10.0
"""After this time a process does not count as starting: it probably waits for something other than CPU time."""
MAX_HEARTBEAT_BYTES = 1 << 20
"""A longer heartbeat is discarded."""


@dataclass(slots=True, kw_only=True)
class WorkerProcess:
    """A worker process with its spec and its last heartbeat.

    Attributes:
        spec_hash: The hash of the spec that the process runs.
        child: The process.
        control_socket: The orchestrator's end of the socket pair. The worker sends heartbeats to it. The orchestrator
            sends JOIN and LEAVE.
        on_heartbeat: Is called with each heartbeat.
        clock: Returns monotonic seconds.
        oom_kills: Detects the out-of-memory kills in the control group of the process.
        cgroup: The process's own control group, if it has one.
        heartbeat: The last valid heartbeat; None before the first one.
        reason: The reason in the last heartbeat, or that the last heartbeat was invalid; empty when it has none.
        stop_deadline: When the process must have ended after SIGTERM, in monotonic seconds; None before SIGTERM.
        was_killed_over_limit: Whether the orchestrator or the kernel killed the process because it used more memory
            than its limit.
        was_killed_stuck: Whether the orchestrator killed the process because it made no progress.
        was_killed_late: Whether the orchestrator killed the process because it did not end in time.
        has_low_priority: Whether the CPU priority of the process was lowered.
        progress_clock: Measures the time since the process last made progress.
        pidfd: A file descriptor that becomes readable when the process ends.
        start_time: When the process was started.
    """

    spec_hash: str
    child: Child
    control_socket: socket.socket
    on_heartbeat: Callable[[Heartbeat], None]
    clock: Callable[[], float]
    oom_kills: OomKillDetector
    cgroup: WorkerCgroup | None = None
    heartbeat: Heartbeat | None = None
    reason: str = ""
    stop_deadline: float | None = None
    was_killed_over_limit: bool = False
    was_killed_stuck: bool = False
    was_killed_late: bool = False
    has_low_priority: bool = False
    progress_clock: ProgressClock = field(init=False)
    pidfd: int = -1
    start_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    _leaves_group: bool = False
    _partial_line: bytes = b""
    _started_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.pidfd = os.pidfd_open(self.child.pid)
        self._started_at = self.clock()
        self.progress_clock = ProgressClock(self._started_at)

    @property
    def reported_state(self) -> str:
        """The state in the last heartbeat; empty before the first one."""
        return self.heartbeat.state if self.heartbeat is not None else ""

    @property
    def isolation(self) -> IsolationStatus | None:
        """How far the worker has come in reading its partitions one by one."""
        return self.heartbeat.isolation if self.heartbeat is not None else None

    @property
    def is_prepared(self) -> bool:
        """Whether the process is prepared, so that it could join the consumer group at once."""
        return self.reported_state == "prepared" and self.stop_deadline is None and not self.is_quiet

    @property
    def is_starting(self) -> bool:
        """Whether the process has not finished its start.

        After START_TIMEOUT_S it does not count as starting.
        """
        has_not_started = self.reported_state in ("", "starting")
        return has_not_started and self.stop_deadline is None and self.clock() < self._started_at + START_TIMEOUT_S

    @property
    def is_quiet(self) -> bool:
        """Whether no heartbeat has shown progress for QUIET_AFTER_S seconds."""
        return self.progress_clock.quiet_s(self.clock()) >= QUIET_AFTER_S

    @property
    def is_stuck(self) -> bool:
        """Whether no heartbeat has shown progress for STUCK_AFTER_S seconds."""
        return self.progress_clock.quiet_s(self.clock()) >= STUCK_AFTER_S

    def join_group(self) -> None:
        """Let the worker join the consumer group."""
        self._send(JOIN)

    def leave_group(self) -> None:
        """Let the worker leave the consumer group when it ends. Idempotent.

        No worker follows in its slot, so its partitions must be reassigned.
        """
        if not self._leaves_group:
            self._leaves_group = True
            self._send(LEAVE)

    def _send(self, message: bytes) -> None:
        """Send a message to the worker. Errors are ignored, because the process may just have died."""
        with contextlib.suppress(OSError):
            self.control_socket.send(message)

    def read_heartbeats(self) -> bool:
        """Read the heartbeats that have arrived.

        Returns False when the worker has closed the socket.
        """
        try:
            data = self.control_socket.recv(1 << 16)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        self._read_lines(data)
        return bool(data)

    def read_last_heartbeats(self) -> None:
        """Read the remaining heartbeats of a worker that has ended."""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while data := self.control_socket.recv(1 << 16):
                self._read_lines(data)

    def _read_lines(self, data: bytes) -> None:
        """Process received bytes, which contain one heartbeat per line.

        An incomplete last line is kept until the rest of the line arrives.
        """
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._read_heartbeat(line)
        if len(self._partial_line) > MAX_HEARTBEAT_BYTES:
            self._partial_line = b""

    def _read_heartbeat(self, line: bytes) -> None:
        try:
            heartbeat = Heartbeat.model_validate_json(line)
        except ValidationError as error:
            self.reason = f"the worker sent an invalid heartbeat: {error.error_count()} validation errors"
            return
        self.progress_clock.on_heartbeat(heartbeat, self.clock())
        self.heartbeat, self.reason = heartbeat, heartbeat.reason
        self.on_heartbeat(heartbeat)

    def close(self) -> None:
        """Close the file descriptors."""
        self.control_socket.close()
        os.close(self.pidfd)
