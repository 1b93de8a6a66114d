"""Sends a worker's heartbeats as JSON lines on an inherited file descriptor."""

import contextlib
import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from headwater.errors import WorkerError
from headwater.model.value_sets import SetVersion
from headwater.model.worker_protocol import JOIN, LEAVE, Heartbeat, WorkerLogLine

log = structlog.get_logger(__name__)

HEARTBEAT_INTERVAL_S = 1.0
MAX_LINES_PER_HEARTBEAT = 20
MAX_LINE_CHARS = 1000

LogSource = Literal["worker", "script"]


class WorkerLog:
    """Collects the lines of the worker and of its scripts for the next heartbeat.

    `GET …/deploy/logs` returns the lines. Between two heartbeats the log keeps at most MAX_LINES_PER_HEARTBEAT lines of
    each source, and counts the lines that it drops. Thread-safe.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._lines: list[WorkerLogLine] = []
        self._counts: Counter[LogSource] = Counter()
        self._lock = threading.Lock()

    def add_script_line(self, line: str) -> None:
        """Add a line that a script wrote with `console.log`."""
        self._add("script", "info", line)

    def add_worker_line(self, level: str, message: str) -> None:
        """Add a line of the worker's own log."""
        self._add("worker", level, message)

    def _add(self, source: LogSource, level: str, message: str) -> None:
        line = WorkerLogLine(time=self._clock(), source=source, level=level, message=message[:MAX_LINE_CHARS])
        with self._lock:
            self._counts[source] += 1
            if self._counts[source] <= MAX_LINES_PER_HEARTBEAT:
                self._lines.append(line)

    def drain(self) -> list[WorkerLogLine]:
        """Return and remove the lines since the last call."""
        with self._lock:
            lines, counts = self._lines, self._counts
            self._lines, self._counts = [], Counter()
        dropped = {source: count - MAX_LINES_PER_HEARTBEAT for source, count in counts.items()}
        now = self._clock()
        return lines + [
            WorkerLogLine(time=now, source=source, level="warning", message=f"({count} more lines were dropped)")
            for source, count in dropped.items()
            if count > 0
        ]


class OrchestratorChannel:
    """Writes heartbeats to the worker's orchestrator, and reads the messages JOIN and LEAVE.

    A heartbeat is due once a second and at every change of state. Writing never blocks: while the orchestrator does not
    read, heartbeats are dropped.

    Args:
        fd: A socket or pipe to the orchestrator; None for a worker without an orchestrator.
        clock: Monotonic seconds.
    """

    def __init__(self, fd: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._fd = fd
        self._clock = clock
        self._due_at = float("-inf")
        self._last_sent: tuple[str, str] | None = None
        self._unsent = b""
        self._received = b""
        self._has_orchestrator_ended = False
        if fd is not None:
            os.set_blocking(fd, False)

    def may_join(self, timeout_s: float) -> bool:
        """Wait until the orchestrator lets this worker join its consumer group.

        Return whether it may join. A worker without an orchestrator may always join. Raises WorkerError when the
        orchestrator has ended: its successor may have started another worker for the same slot.
        """
        if self._has_orchestrator_ended:
            raise _orchestrator_ended()
        if self._fd is None or JOIN in self._received:
            return True
        if select.select([self._fd], [], [], timeout_s)[0]:
            self._receive(self._fd)
        return JOIN in self._received

    def _receive(self, fd: int) -> None:
        try:
            received = os.read(fd, 1 << 10)
        except ConnectionResetError:
            received = b""
        if not received:
            raise _orchestrator_ended()
        self._received += received

    def may_leave(self) -> bool:
        """Return whether the orchestrator has said that no worker follows in this slot."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                self._received += os.read(self._fd, 1 << 10)
        return LEAVE in self._received

    def is_due(self, state: str, reason: str) -> bool:
        """Return whether it is time to call `send`."""
        return (state, reason) != self._last_sent or self._clock() >= self._due_at

    def send(self, heartbeat: Heartbeat) -> bool:
        """Write one heartbeat.

        Return whether the orchestrator will read the heartbeat, even if this process is killed now.
        """
        self._last_sent = (heartbeat.state, heartbeat.reason)
        self._due_at = self._clock() + HEARTBEAT_INTERVAL_S
        self._write()
        if self._fd is None:
            return True
        if self._unsent:  # the orchestrator has not read the last heartbeat
            return False
        self._unsent = heartbeat.model_dump_json().encode() + b"\n"
        self._write()
        return not self._unsent

    def _write(self) -> None:
        if self._fd is None or not self._unsent:
            return
        try:
            self._unsent = self._unsent[os.write(self._fd, self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            log.warning("the orchestrator has ended; no more heartbeats are written", error=str(error))
            self._fd, self._unsent, self._has_orchestrator_ended = None, b"", True


def _orchestrator_ended() -> WorkerError:
    return WorkerError("The process of the orchestrator has ended. The next one starts a new worker.")


class HeartbeatReporter:
    """Builds the worker's heartbeats and sends them.

    Attributes:
        channel: The channel to the orchestrator, which sends nothing without an orchestrator.
        log: The lines of the next heartbeat.
        read_set_versions: Returns the versions of the worker's sets, see Heartbeat. It returns another object when a
            version has changed, and a heartbeat is due then.
    """

    def __init__(self, channel: OrchestratorChannel | None = None, spec_hash: str = "") -> None:
        self.channel = channel or OrchestratorChannel(None)
        self.log = WorkerLog()
        self.read_set_versions: Callable[[], Mapping[str, SetVersion] | None] = lambda: None
        self._sent_set_versions: Mapping[str, SetVersion] | None = None
        self._spec_hash = spec_hash

    def is_due(self, state: str, reason: str) -> bool:
        """Return whether it is time to call `report`."""
        has_new_versions = self.read_set_versions() is not self._sent_set_versions
        return has_new_versions or self.channel.is_due(state, reason)

    def report(self, state: str, reason: str = "", **fields: Any) -> bool:
        """Send a heartbeat. Return what OrchestratorChannel.send returns.

        Args:
            state: The state of the worker.
            reason: The reason of the state.
            **fields: Further fields of the heartbeat.
        """
        self._sent_set_versions = set_versions = self.read_set_versions()
        heartbeat = Heartbeat(
            state=state,
            spec_hash=self._spec_hash,
            reason=reason,
            set_versions=None if set_versions is None else dict(set_versions),
            logs=self.log.drain(),
            **fields,
        )
        return self.channel.send(heartbeat)
