"""Builds a worker's heartbeats, with its log lines, and sends them to its orchestrator."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from headwater.engine.orchestrator_channel import NoOrchestrator, OrchestratorChannel
from headwater.model.value_sets import SetVersion
from headwater.model.worker_protocol import Heartbeat, WorkerLogLine

HEARTBEAT_INTERVAL_S = 1.0
MAX_LINES_PER_HEARTBEAT = 20
MAX_LINE_CHARS = 1000

LogSource = Literal["worker", "script"]


class WorkerLog:
    """Collects the lines of the worker and of its scripts for the next heartbeat.

    `GET …/deploy/logs` returns the lines. Between two heartbeats the log keeps at most MAX_LINES_PER_HEARTBEAT lines of
    each source, and counts the lines that it drops. Thread-safe.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
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
        line = WorkerLogLine(time=self._now(), source=source, level=level, message=message[:MAX_LINE_CHARS])
        with self._lock:
            self._counts[source] += 1
            if self._counts[source] <= MAX_LINES_PER_HEARTBEAT:
                self._lines.append(line)

    def take_lines(self) -> list[WorkerLogLine]:
        """Return and remove the lines since the last call."""
        with self._lock:
            lines, counts = self._lines, self._counts
            self._lines, self._counts = [], Counter()
        dropped = {source: count - MAX_LINES_PER_HEARTBEAT for source, count in counts.items()}
        now = self._now()
        return lines + [
            WorkerLogLine(time=now, source=source, level="warning", message=f"({count} more lines were dropped)")
            for source, count in dropped.items()
            if count > 0
        ]


class HeartbeatReporter:
    """Builds the worker's heartbeats and sends them.

    A heartbeat is due once a second, at every change of the state, and when a version of a set has changed.

    Attributes:
        channel: The channel to the orchestrator.
        log: The lines of the next heartbeat.
        read_set_versions: Returns the versions of the worker's sets, see Heartbeat. It returns another object when a
            version has changed.
        read_scripts_cpu_s: Returns the CPU time of the process that runs the scripts, in seconds.
    """

    def __init__(
        self,
        channel: OrchestratorChannel | None = None,
        spec_hash: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.channel = channel or NoOrchestrator()
        self.log = WorkerLog()
        self.read_set_versions: Callable[[], Mapping[str, SetVersion] | None] = lambda: None
        self.read_scripts_cpu_s: Callable[[], float] = lambda: 0.0
        self._started_at = time.monotonic()
        self._sent_set_versions: Mapping[str, SetVersion] | None = None
        self._spec_hash = spec_hash
        self._clock = clock
        self._due_at = float("-inf")
        self._sent_state: tuple[str, str] | None = None

    def total_cpu_s(self) -> float:
        """Return the CPU time of this process and of the process that runs the scripts, in seconds."""
        return time.process_time() + self.read_scripts_cpu_s()

    def is_due(self, state: str, reason: str) -> bool:
        """Return whether it is time to call `report`."""
        has_new_versions = self.read_set_versions() is not self._sent_set_versions
        return has_new_versions or (state, reason) != self._sent_state or self._clock() >= self._due_at

    def report(self, state: str, reason: str = "", **fields: Any) -> bool:
        """Send a heartbeat.

        Returns whether the orchestrator will read the `isolation` in it, even if this process is killed now.

        Args:
            state: The state of the worker.
            reason: The reason of the state.
            **fields: Further fields of the heartbeat.
        """
        self._sent_set_versions = set_versions = self.read_set_versions()
        self._sent_state, self._due_at = (state, reason), self._clock() + HEARTBEAT_INTERVAL_S
        heartbeat = Heartbeat(
            state=state,
            spec_hash=self._spec_hash,
            reason=reason,
            set_versions=None if set_versions is None else dict(set_versions),
            uptime_s=time.monotonic() - self._started_at,
            cpu_s=time.process_time(),
            scripts_cpu_s=self.read_scripts_cpu_s(),
            logs=self.log.take_lines(),
            **fields,
        )
        return self.channel.send(heartbeat)
