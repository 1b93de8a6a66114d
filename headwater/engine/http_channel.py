"""The connection of a worker in a Pod to its orchestrator.

`app/worker_server.py` serves it over HTTP.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from headwater.engine.restart_state import RestartState
from headwater.model.progress_clock import QUIET_AFTER_S, STUCK_AFTER_S, ProgressClock
from headwater.model.reading_plan import READ_ALL, ReadingPlan
from headwater.model.worker_protocol import Heartbeat, WorkerLogLine
from headwater.model.worker_report import WorkerReport

MAX_LINES = 1000
"""The number of log lines that a worker keeps until its orchestrator has read them."""
JOIN_TIMEOUT_S = 10.0
"""How long a restarted worker that had joined waits for a new reading plan. Then it joins with its last one.

A reading plan says whether a worker first reads its partitions one at a time, and which ones it reads only once an hour
(partition_isolation.py).
"""


class HttpChannel:
    """Implements OrchestratorChannel.

    The engine's thread and the threads of the HTTP server call its methods.

    Args:
        state: What the worker remembers across restarts of its container.
        stop: Asks the worker to finish its batches, and to end.
        clock: Returns monotonic seconds.
        first_version: The version of the first report, and the number of the first log line. The default is the
            present time: a restarted container must not repeat numbers that the orchestrator has seen.
    """

    def __init__(
        self,
        state: RestartState,
        stop: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        first_version: int | None = None,
    ) -> None:
        self._state = state
        self._stop = stop
        self._clock = clock
        self._changed = threading.Condition()
        self._version = time.time_ns() if first_version is None else first_version
        self._reading_plan: ReadingPlan | None = None
        self._joins_at = clock() + JOIN_TIMEOUT_S if state.joined_plan is not None else float("inf")
        self._heartbeat: Heartbeat | None = None
        self._progress = ProgressClock(clock())
        self._lines: deque[WorkerLogLine] = deque(maxlen=MAX_LINES)
        self._next_line = self._version
        self._must_leave_group = False
        self._is_stopping = state.is_stopped
        self._has_ended = False

    # For the engine

    @property
    def reading_plan(self) -> ReadingPlan:
        return self._reading_plan or self._state.joined_plan or READ_ALL

    def may_join(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(self._is_join_due, timeout_s)

    def _is_join_due(self) -> bool:
        return self._reading_plan is not None or self._clock() >= self._joins_at

    def must_leave_group(self) -> bool:
        return self._must_leave_group

    def send(self, heartbeat: Heartbeat) -> bool:
        with self._changed:
            self._progress.on_heartbeat(heartbeat, self._clock())
            self._lines.extend(heartbeat.logs)
            self._next_line += len(heartbeat.logs)
            last, self._heartbeat = self._heartbeat, heartbeat.model_copy(update={"logs": []})
            if last is None or heartbeat.logs or _summary(last) != _summary(heartbeat):
                self._version += 1
                self._changed.notify_all()
        if heartbeat.isolation is not None and (last is None or last.isolation != heartbeat.isolation):
            self._state.save_isolation(heartbeat.isolation)
        return True

    # For the HTTP server and the program

    @property
    def is_stopping(self) -> bool:
        """Whether the orchestrator has asked this container, or an earlier one of the Pod, to stop."""
        return self._is_stopping

    @property
    def reason(self) -> str:
        """The reason in the last heartbeat."""
        return self._heartbeat.reason if self._heartbeat is not None else ""

    @property
    def is_alive(self) -> bool:
        """Whether the worker is not stuck."""
        return self._has_ended or self._progress.quiet_s(self._clock()) < STUCK_AFTER_S

    @property
    def is_ready(self) -> bool:
        """Whether the worker processes records."""
        heartbeat = self._heartbeat
        is_quiet = self._progress.quiet_s(self._clock()) >= QUIET_AFTER_S
        return heartbeat is not None and heartbeat.state == "ready" and not is_quiet and not self._has_ended

    def join(self, reading_plan: ReadingPlan) -> None:
        """Let the worker join its consumer group. Idempotent."""
        self._state.save_joined(reading_plan)
        with self._changed:
            self._reading_plan = self._reading_plan or reading_plan
            self._version += 1
            self._changed.notify_all()

    def stop(self, *, leave_group: bool, timeout_s: float) -> bool:
        """Ask the worker to finish its batches and to close its Kafka clients. Idempotent.

        Waits for the end, and returns whether the worker has closed its Kafka clients.

        Args:
            leave_group: Whether the worker leaves its consumer group, because no worker follows in its slot.
            timeout_s: How long to wait.
        """
        self._must_leave_group = self._must_leave_group or leave_group
        self._state.save_stopped()
        if not self._is_stopping:
            self._is_stopping = True
            self._stop()
        with self._changed:
            return self._changed.wait_for(lambda: self._has_ended, timeout_s)

    def on_ended(self) -> None:
        """Report that the worker has closed its Kafka clients."""
        with self._changed:
            self._has_ended = True
            self._version += 1
            self._changed.notify_all()

    def report(self, seen_version: int, next_line: int, timeout_s: float) -> WorkerReport:
        """Return the state of the worker, as soon as its version is not `seen_version`.

        Lines before `next_line` are removed. So an orchestrator that starts gets only lines that no other one has read.

        Args:
            seen_version: The version of the last report.
            next_line: The number of the first log line to return.
            timeout_s: How long to wait.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen_version, timeout_s)
            while self._lines and self._next_line - len(self._lines) < next_line:
                self._lines.popleft()
            return WorkerReport(
                version=self._version,
                heartbeat=self._heartbeat,
                quiet_s=self._progress.quiet_s(self._clock()),
                may_join=self._is_join_due(),
                has_ended=self._has_ended,
                lines=list(self._lines),
                next_line=self._next_line,
                previous_isolation=self._state.isolation,
            )


def _summary(heartbeat: Heartbeat) -> tuple[object, ...]:
    """Return the parts of a heartbeat whose change is reported at once."""
    return heartbeat.state, heartbeat.reason, heartbeat.set_versions, heartbeat.isolation
