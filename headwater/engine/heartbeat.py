"""Sends a worker's heartbeats as JSON lines on an inherited file descriptor."""

import contextlib
import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from headwater.errors import WorkerError
from headwater.model.worker_protocol import JOIN, LEAVE, Heartbeat, WorkerLogLine

log = structlog.get_logger(__name__)

HEARTBEAT_INTERVAL_S = 1.0
MAX_LINES_PER_HEARTBEAT = 20
MAX_LINE_CHARS = 1000

LogOrigin = Literal["worker", "script"]


class WorkerLog:
    """Collects the lines of the worker and of its scripts for the next heartbeat.

    `GET …/deploy/logs` returns them. Between two heartbeats it keeps at most MAX_LINES_PER_HEARTBEAT lines of each
    origin, and counts the others. Thread-safe.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._lines: list[WorkerLogLine] = []
        self._counts: Counter[LogOrigin] = Counter()
        self._lock = threading.Lock()

    def add_script_line(self, line: str) -> None:
        """Add a line that a script wrote with `console.log`."""
        self._add("script", "info", line)

    def add_worker_line(self, level: str, message: str) -> None:
        """Add a line of the worker's own log."""
        self._add("worker", level, message)

    def _add(self, origin: LogOrigin, level: str, message: str) -> None:
        line = WorkerLogLine(time=self._now(), source=origin, level=level, message=message[:MAX_LINE_CHARS])
        with self._lock:
            self._counts[origin] += 1
            if self._counts[origin] <= MAX_LINES_PER_HEARTBEAT:
                self._lines.append(line)

    def drain(self) -> list[WorkerLogLine]:
        """Return and remove the lines since the last call."""
        with self._lock:
            lines, counts = self._lines, self._counts
            self._lines, self._counts = [], Counter()
        dropped = {origin: count - MAX_LINES_PER_HEARTBEAT for origin, count in counts.items()}
        return lines + [
            WorkerLogLine(
                time=self._now(), source=origin, level="warning", message=f"({count} more lines were dropped)"
            )
            for origin, count in dropped.items()
            if count > 0
        ]


class SupervisorChannel:
    """Writes heartbeats to the supervisor and reads its commands.

    A heartbeat is due once a second and at every change of state. Writing never blocks: while the supervisor does not
    read, heartbeats are dropped.

    fd: a socket or pipe to the supervisor; None for a worker without a supervisor.
    """

    def __init__(self, fd: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._fd = fd
        self._clock = clock
        self._due = float("-inf")
        self._last_sent: tuple[str, str] | None = None
        self._unsent = b""
        self._may_join = self._is_supervisor_gone = False
        if fd is not None:
            os.set_blocking(fd, False)

    def may_join(self, timeout_s: float) -> bool:
        """Wait until the supervisor lets this worker join its consumer group.

        Return whether it may join. A worker without a supervisor may always join. Raises WorkerError when the
        supervisor has ended: its successor may have started another worker for the same slot.
        """
        if self._is_supervisor_gone:
            raise _supervisor_gone()
        if self._fd is None or self._may_join:
            return True
        if select.select([self._fd], [], [], timeout_s)[0]:
            self._may_join = JOIN in self._receive(self._fd)
        return self._may_join

    def may_leave(self) -> bool:
        """Return whether the supervisor has said that no worker follows in this slot."""
        with contextlib.suppress(OSError):
            return self._fd is not None and LEAVE in os.read(self._fd, 1 << 10)
        return False

    def _receive(self, fd: int) -> bytes:
        try:
            received = os.read(fd, 1 << 10)
        except ConnectionResetError:
            received = b""
        if not received:
            raise _supervisor_gone()
        return received

    def due(self, state: str, reason: str) -> bool:
        """Return whether it is time to call `send`."""
        return (state, reason) != self._last_sent or self._clock() >= self._due

    def send(self, heartbeat: Heartbeat) -> bool:
        """Write one heartbeat.

        Return whether the supervisor will read it, even if this process is killed now.
        """
        self._last_sent = (heartbeat.state, heartbeat.reason)
        self._due = self._clock() + HEARTBEAT_INTERVAL_S
        self._write()
        if self._fd is None:
            return True
        if self._unsent:  # the supervisor has not read the last heartbeat
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
            log.warning("the supervisor has ended; no more heartbeats are written", error=str(error))
            self._fd, self._unsent, self._is_supervisor_gone = None, b"", True


def _supervisor_gone() -> WorkerError:
    return WorkerError("The supervisor process has ended. The next supervisor starts a new worker.")


class HeartbeatReporter:
    """Builds the worker's heartbeats and sends them.

    Attributes:
        channel: The channel to the supervisor. Without a supervisor it sends nothing.
        log: Lines that the next heartbeat carries.
    """

    def __init__(self, channel: SupervisorChannel | None = None, spec_hash: str = "") -> None:
        self.channel = channel or SupervisorChannel(None)
        self.log = WorkerLog()
        self._spec_hash = spec_hash

    def due(self, state: str, reason: str) -> bool:
        """See SupervisorChannel."""
        return self.channel.due(state, reason)

    def report(self, state: str, reason: str = "", **fields: Any) -> bool:
        """Send a heartbeat with these further fields. Return what SupervisorChannel.send returns."""
        heartbeat = Heartbeat(state=state, spec_hash=self._spec_hash, reason=reason, logs=self.log.drain(), **fields)
        return self.channel.send(heartbeat)
