"""One worker slot of the process orchestrator: its wanted specs, processes and status."""

import signal
from collections import deque
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime

from headwater.backoff import Backoff
from headwater.model.deployment import LogLine, Status, WorkerStatus
from headwater.model.worker_protocol import FENCED_STATUS, Heartbeat
from headwater.orchestrators.oom_history import OomHistory
from headwater.orchestrators.worker_process import QUIET_AFTER_S, STUCK_AFTER_S, WorkerProcess

CRASH_LOOP_DEATHS = 2
MAX_PENDING_LINES = 1000
OOM_REPORTED_FOR_S = 900.0
"""How long a restarted worker is reported as killed for memory."""
OVER_LIMIT_REASON = "killed for memory: with its scripts' process it needed more than worker_memory_mb allows"
SCRIPTS_KILLED_MESSAGE = (
    "The kernel killed the scripts' process for memory: with its worker it needed more than worker_memory_mb allows. "
    "The worker has started a new process for its scripts."
)
QUIET_REASON = (
    f"The worker has made no progress for more than {QUIET_AFTER_S:.0f} s. "
    f"After {STUCK_AFTER_S:.0f} s it is killed and restarted."
)


@dataclass(slots=True, kw_only=True)
class ManagedProcess:
    """The wanted spec and the running process: of a slot's worker, or of its successor.

    Attributes:
        spec_hash: The wanted spec; None when no process should run.
        process: The process, if one runs. It may still run another spec than the wanted one.
        deaths: The number of deaths with this spec, without those caused by records that have already killed workers
            with the previous spec.
        deaths_in_a_row: The number of deaths since the last commit.
        restart_at: The earliest time of the next start, in monotonic seconds.
        oom_killed_at: When a process was last killed for memory, in monotonic seconds.
        was_oom_killed: Whether the last process was killed for memory.
        is_fenced: Whether another worker has fenced the last process.
    """

    spec_hash: str | None = None
    process: WorkerProcess | None = None
    deaths: int = 0
    deaths_in_a_row: int = 0
    restart_at: float = 0.0
    reason: str = ""
    backoff: Backoff = field(default_factory=Backoff)
    oom_killed_at: float | None = None
    was_oom_killed: bool = False
    is_fenced: bool = False

    @property
    def runs_wanted_spec(self) -> bool:
        """Whether the running process has the wanted spec."""
        return self.process is not None and self.process.spec_hash == self.spec_hash

    def set_wanted_spec(self, spec_hash: str | None) -> None:
        """Set the wanted spec.

        Another spec starts at once, without the back-off of the previous one.
        """
        if spec_hash != self.spec_hash:
            self.spec_hash, self.restart_at, self.deaths, self.deaths_in_a_row = spec_hash, 0.0, 0, 0
            self.reason, self.oom_killed_at, self.was_oom_killed = "", None, False
            self.backoff.reset()

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Update the state from a heartbeat."""
        self.reason = heartbeat.reason
        if heartbeat.committed_batches:
            self.backoff.reset()
            self.deaths_in_a_row = 0

    def died(self, reason: str, now: float, *, counts_for_spec: bool = True) -> None:
        """Record an unexpected end or a failed start, and delay the next start.

        `counts_for_spec` says whether the death counts in `deaths`.
        """
        self.deaths += counts_for_spec
        self.deaths_in_a_row += 1
        self.reason = reason
        self.restart_at = now + self.backoff.next_delay_s()


@dataclass(slots=True)
class Slot:
    """One worker slot. All methods are called under the orchestrator's lock.

    Attributes:
        deaths: The number of deaths of the slot's workers since the slot was created.
        lines: Log lines that the controller has not taken yet.
    """

    name: str
    _: KW_ONLY
    worker: ManagedProcess = field(default_factory=ManagedProcess)
    successor: ManagedProcess = field(default_factory=ManagedProcess)
    deaths: int = 0
    oom_history: OomHistory = field(default_factory=OomHistory)
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=MAX_PENDING_LINES))

    @property
    def is_prepared(self) -> bool:
        """Whether the successor is prepared and could join the consumer group at once."""
        process = self.successor.process
        return process is not None and self.successor.runs_wanted_spec and process.is_prepared

    @property
    def is_empty(self) -> bool:
        """Whether no process runs in this slot, and none should."""
        both = (self.worker, self.successor)
        return all(managed.spec_hash is None and managed.process is None for managed in both)

    @property
    def spec_hashes(self) -> Iterator[str]:
        """The spec hashes of all processes that run in this slot or should."""
        for managed in (self.worker, self.successor):
            if managed.spec_hash is not None:
                yield managed.spec_hash
            if managed.process is not None:
                yield managed.process.spec_hash

    @property
    def is_handing_over(self) -> bool:
        """Whether the worker is ending so that a successor takes over."""
        return (
            self.worker.process is not None and self.worker.spec_hash is not None and not self.worker.runs_wanted_spec
        )

    def hand_over(self) -> None:
        """Make the successor's spec the wanted spec of the worker.

        `promote` follows when the worker has ended.
        """
        self.worker.set_wanted_spec(self.successor.spec_hash)

    def promote(self) -> bool:
        """Make the successor the worker when the worker has ended and the specs are equal."""
        process = self.successor.process
        if process is None or process.stop_deadline is not None or self.worker.process is not None:
            return False
        if not self.successor.runs_wanted_spec or process.spec_hash != self.worker.spec_hash:
            return False  # it belongs to a later replacement, or must stop
        self.worker, self.successor = self.successor, ManagedProcess()
        return True

    def clear_dead_successor(self) -> None:
        """Clear a successor that died during the hand-over.

        The slot then starts a worker with its spec instead.
        """
        if self.successor.process is None and self.successor.spec_hash == self.worker.spec_hash:
            self.successor.set_wanted_spec(None)

    def on_heartbeat(self, process: WorkerProcess, heartbeat: Heartbeat) -> None:
        """Process a heartbeat of the worker or the successor, and keep its log lines."""
        for managed in (self.worker, self.successor):
            if managed.process is process:
                managed.on_heartbeat(heartbeat)
        if self.worker.process is process and heartbeat.isolation is not None:
            self.oom_history.on_isolation_status(process.spec_hash, heartbeat.isolation)
        self.lines.extend(
            LogLine(time=line.time, worker=self.name, source=line.source, level=line.level, message=line.message)
            for line in heartbeat.logs
        )

    def ended(self, managed: ManagedProcess, status: int, now: float) -> None:
        """Record the end of a process."""
        process = managed.process
        assert process is not None
        managed.process = None
        managed.is_fenced = status == FENCED_STATUS
        managed.was_oom_killed = False
        process.close()
        if process.stop_deadline is not None:
            return
        if process.was_killed_stuck:
            self.died(managed, f"killed: it made no progress for {STUCK_AFTER_S:.0f} s", now)
        elif status == -signal.SIGKILL and (process.was_killed_over_limit or process.kills.is_recent):
            managed.oom_killed_at, managed.was_oom_killed = now, True
            is_known = managed is self.worker and self.oom_history.record_kill(
                process.spec_hash, process.heartbeat, now
            )
            self.died(managed, _describe_oom(process), now, counts_for_spec=not is_known)
        else:
            self.died(managed, _describe(status, process.reason), now)

    def died(self, managed: ManagedProcess, reason: str, now: float, *, counts_for_spec: bool = True) -> None:
        """Record an unexpected end of a process, or a failed start. See ManagedProcess.died."""
        managed.died(reason, now, counts_for_spec=counts_for_spec)
        self.deaths += managed is self.worker
        self.log("error", reason)

    def log(self, level: str, message: str) -> None:
        """Add a line to the deployment's log."""
        self.lines.append(
            LogLine(time=datetime.now(UTC), worker=self.name, source="worker", level=level, message=message)
        )

    def status(self, managed: ManagedProcess, now: float) -> WorkerStatus:
        """Return the status of the worker or the successor, as `deploy/stats` shows it."""
        state, process = _state(managed), managed.process
        reported = process.heartbeat.state if process is not None and process.heartbeat is not None else ""
        quiet = state is Status.RUNNING and process is not None and process.is_quiet and reported != "waiting"
        return WorkerStatus(
            name=self.name,
            status=state,
            is_ready=state is Status.RUNNING and reported == "ready" and not quiet,
            is_crash_looping=state is Status.CRASH_LOOP_BACK_OFF,
            is_oom_killed=managed.oom_killed_at is not None and now - managed.oom_killed_at < OOM_REPORTED_FOR_S,
            restart_count=self.deaths,
            start_time=process.start_time if process is not None else self.created_at,
            reason=QUIET_REASON if quiet else (process.reason if process is not None else "") or managed.reason,
            spec_hash=managed.spec_hash or "",
            deaths=managed.deaths,
            waits=reported == "waiting",
        )


def _state(managed: ManagedProcess) -> Status:
    if managed.process is None:
        if managed.deaths_in_a_row >= CRASH_LOOP_DEATHS:
            return Status.CRASH_LOOP_BACK_OFF
        return Status.OOM_KILLED if managed.was_oom_killed else Status.PENDING
    if managed.process.stop_deadline is not None or not managed.runs_wanted_spec:
        return Status.TERMINATING
    reported = managed.process.heartbeat
    if reported is not None and reported.state == "crashing":
        return Status.CRASH_LOOP_BACK_OFF
    return Status.PENDING if reported is None else Status.RUNNING


def _describe_oom(process: WorkerProcess) -> str:
    if process.was_killed_over_limit:
        return OVER_LIMIT_REASON
    return "killed for memory by the kernel: the machine, or the control group of this process, has too little"


def _describe(status: int, last_reason: str) -> str:
    """Return why a worker ended, from its wait status and the last reason that it reported."""
    ended = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return f"{ended}; its last report: {last_reason}" if last_reason else ended
