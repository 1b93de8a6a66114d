"""One worker slot of the process orchestrator: its wanted specs, processes and status."""

import signal
from collections import deque
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime

from headwater.backoff import Backoff
from headwater.model.deployment import LogLine, ObservedWorker, ObservedWorkerStatus
from headwater.model.progress_clock import QUIET_AFTER_S, STUCK_AFTER_S
from headwater.model.worker_protocol import FENCED_STATUS, Heartbeat
from headwater.orchestrators.oom_history import OomHistory
from headwater.orchestrators.worker_process import WorkerProcess

CRASH_LOOP_DEATHS = 2
"""After this many deaths without a commit, a slot is reported as CRASH_LOOP_BACK_OFF."""
MAX_PENDING_LINES = 1000
"""The number of log lines that a slot keeps until the controller takes them."""
OOM_REPORTED_FOR_S = 900.0
"""How long a restarted worker is reported as killed for memory."""
OVER_LIMIT_REASON = (
    "killed for memory: the worker and the process of its scripts together needed more memory than "
    "HEADWATER_WORKER_MEMORY_MB allows"
)
SCRIPTS_KILLED_MESSAGE = (
    "The kernel killed the process of the scripts for memory: the process and its worker together needed more memory "
    "than HEADWATER_WORKER_MEMORY_MB allows. The worker has started a new process for its scripts."
)
QUIET_REASON = (
    f"The worker has made no progress for more than {QUIET_AFTER_S:.0f} s. "
    f"After {STUCK_AFTER_S:.0f} s it is killed and restarted."
)


@dataclass(slots=True, kw_only=True)
class SlotRole:
    """One of the two roles in a slot, worker or successor.

    A role has a wanted spec, and one process after another.

    Attributes:
        wanted_spec_hash: The hash of the wanted spec; None when no process should run.
        process: The process that runs now, if there is one. It may still run another spec than the wanted one.
        deaths: The number of deaths with this spec. A death is not counted when the records that caused it have already
            killed workers with the previous spec.
        deaths_in_a_row: The number of deaths since the last commit.
        restart_at: The earliest time of the next start, in monotonic seconds.
        reason: Why the last process ended or could not be started, or the reason in the last heartbeat.
        backoff: The delays between starts.
        oom_killed_at: When a process was last killed for memory, in monotonic seconds.
        was_oom_killed: Whether the last process was killed for memory.
        is_fenced: Whether another worker has fenced the last process.
    """

    wanted_spec_hash: str | None = None
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
        return self.process is not None and self.process.spec_hash == self.wanted_spec_hash

    def set_wanted_spec(self, spec_hash: str | None) -> None:
        """Set the wanted spec.

        Another spec starts at once, without the back-off of the previous one.
        """
        if spec_hash != self.wanted_spec_hash:
            self.wanted_spec_hash, self.restart_at, self.deaths, self.deaths_in_a_row = spec_hash, 0.0, 0, 0
            self.reason, self.oom_killed_at, self.was_oom_killed = "", None, False
            self.backoff.reset()

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Update the state from a heartbeat."""
        self.reason = heartbeat.reason
        if heartbeat.committed_batches:
            self.backoff.reset()
            self.deaths_in_a_row = 0

    def record_death(self, reason: str, now: float, *, counts_for_spec: bool = True) -> None:
        """Record an unexpected end or a failed start, and delay the next start.

        Args:
            reason: Why the process ended or could not be started.
            now: The time of the death, in monotonic seconds.
            counts_for_spec: Whether the death counts in `deaths`.
        """
        self.deaths += counts_for_spec
        self.deaths_in_a_row += 1
        self.reason = reason
        self.restart_at = now + self.backoff.next_delay_s()


@dataclass(slots=True)
class Slot:
    """One worker slot. All methods are called under the orchestrator's lock.

    Attributes:
        name: The name of the worker.
        worker: The role whose process is or should be a member of the consumer group.
        successor: The role whose process is being prepared to take over from the worker.
        restart_count: The number of deaths of the slot's workers since the slot was created, with any spec.
        oom_history: The out-of-memory kills of the slot's workers.
        created_at: When the slot was created.
        lines: Log lines that the controller has not taken yet.
    """

    name: str
    _: KW_ONLY
    worker: SlotRole = field(default_factory=SlotRole)
    successor: SlotRole = field(default_factory=SlotRole)
    restart_count: int = 0
    oom_history: OomHistory = field(default_factory=OomHistory)
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=MAX_PENDING_LINES))

    @property
    def has_prepared_successor(self) -> bool:
        """Whether the slot has a successor that could join the consumer group at once."""
        process = self.successor.process
        return process is not None and self.successor.runs_wanted_spec and process.is_prepared

    @property
    def starting_count(self) -> int:
        """How many processes of the slot are starting."""
        return sum(role.process is not None and role.process.is_starting for role in self.roles)

    @property
    def is_empty(self) -> bool:
        """Whether no process runs in this slot, and none should."""
        return all(role.wanted_spec_hash is None and role.process is None for role in self.roles)

    @property
    def roles(self) -> tuple[SlotRole, SlotRole]:
        """The roles worker and successor."""
        return self.worker, self.successor

    @property
    def spec_hashes(self) -> Iterator[str]:
        """The spec hashes of all processes that run in this slot or should run in it."""
        for role in self.roles:
            if role.wanted_spec_hash is not None:
                yield role.wanted_spec_hash
            if role.process is not None:
                yield role.process.spec_hash

    @property
    def is_handing_over(self) -> bool:
        """Whether the worker is ending so that a successor takes over."""
        return (
            self.worker.process is not None
            and self.worker.wanted_spec_hash is not None
            and not self.worker.runs_wanted_spec
        )

    def hand_over(self) -> None:
        """Make the successor's spec the wanted spec of the worker.

        `promote` follows when the worker has ended.
        """
        self.worker.set_wanted_spec(self.successor.wanted_spec_hash)

    def promote(self) -> bool:
        """Make the successor the worker, if the worker has ended and the successor is wanted.

        Returns whether the successor is the worker now.
        """
        process = self.successor.process
        if process is None or process.stop_deadline is not None or self.worker.process is not None:
            return False
        if not self.successor.runs_wanted_spec or process.spec_hash != self.worker.wanted_spec_hash:
            return False  # the successor belongs to a later replacement, or must stop
        self.worker, self.successor = self.successor, SlotRole()
        return True

    def clear_dead_successor(self) -> None:
        """Clear a successor that died during the hand-over.

        The slot then starts a worker with the same spec.
        """
        if self.successor.process is None and self.successor.wanted_spec_hash == self.worker.wanted_spec_hash:
            self.successor.set_wanted_spec(None)

    def on_heartbeat(self, process: WorkerProcess, heartbeat: Heartbeat) -> None:
        """Process a heartbeat of the worker or the successor, and keep its log lines."""
        for role in self.roles:
            if role.process is process:
                role.on_heartbeat(heartbeat)
        if self.worker.process is process and heartbeat.isolation is not None:
            self.oom_history.on_isolation_status(process.spec_hash, heartbeat.isolation)
        self.lines.extend(
            LogLine(time=line.time, worker=self.name, source=line.source, level=line.level, message=line.message)
            for line in heartbeat.logs
        )

    def record_exit(self, role: SlotRole, exit_status: int, now: float) -> None:
        """Record the end of a process. When the orchestrator has not stopped it, record a death."""
        process = role.process
        assert process is not None
        role.process = None
        role.is_fenced = exit_status == FENCED_STATUS
        role.was_oom_killed = False
        process.close()
        if process.stop_deadline is not None:
            return
        if process.was_killed_stuck:
            self.record_death(role, f"killed: it made no progress for {STUCK_AFTER_S:.0f} s", now)
        elif exit_status == -signal.SIGKILL and (process.was_killed_over_limit or process.oom_kills.is_recent):
            role.oom_killed_at, role.was_oom_killed = now, True
            killed_previous_spec = False
            if role is self.worker:
                killed_previous_spec = self.oom_history.record_kill(process.spec_hash, process.isolation, now)
            self.record_death(role, _describe_oom_kill(process), now, counts_for_spec=not killed_previous_spec)
        else:
            self.record_death(role, _describe_exit(exit_status, process.reason), now)

    def record_death(self, role: SlotRole, reason: str, now: float, *, counts_for_spec: bool = True) -> None:
        """Record and log an unexpected end of a process or a failed start.

        SlotRole.record_death has the same arguments.
        """
        role.record_death(reason, now, counts_for_spec=counts_for_spec)
        self.restart_count += role is self.worker
        self.log("error", reason)

    def log(self, level: str, message: str) -> None:
        """Add a line to the deployment's log."""
        self.lines.append(
            LogLine(time=datetime.now(UTC), worker=self.name, source="worker", level=level, message=message)
        )

    def status(self, role: SlotRole, now: float) -> ObservedWorker:
        """Return the status of the worker or the successor, as `deploy/stats` shows it."""
        status, process = _status(role), role.process
        heartbeat = process.heartbeat if process is not None else None
        reported_state = process.reported_state if process is not None else ""
        is_waiting, is_running = reported_state == "waiting", status is ObservedWorkerStatus.RUNNING
        is_quiet = is_running and process is not None and process.is_quiet and not is_waiting
        return ObservedWorker(
            name=self.name,
            status=status,
            is_ready=is_running and reported_state == "ready" and not is_quiet,
            is_crash_looping=status is ObservedWorkerStatus.CRASH_LOOP_BACK_OFF,
            is_oom_killed=role.oom_killed_at is not None and now - role.oom_killed_at < OOM_REPORTED_FOR_S,
            restart_count=self.restart_count,
            start_time=process.start_time if process is not None else self.created_at,
            reason=QUIET_REASON if is_quiet else (process.reason if process is not None else "") or role.reason,
            spec_hash=role.wanted_spec_hash or "",
            deaths=role.deaths,
            waits=is_waiting,
            set_versions=heartbeat.set_versions if heartbeat is not None else None,
        )


def _status(role: SlotRole) -> ObservedWorkerStatus:
    if role.process is None:
        if role.deaths_in_a_row >= CRASH_LOOP_DEATHS:
            return ObservedWorkerStatus.CRASH_LOOP_BACK_OFF
        return ObservedWorkerStatus.OOM_KILLED if role.was_oom_killed else ObservedWorkerStatus.PENDING
    if role.process.stop_deadline is not None or not role.runs_wanted_spec:
        return ObservedWorkerStatus.TERMINATING
    if role.process.reported_state == "crashing":
        return ObservedWorkerStatus.CRASH_LOOP_BACK_OFF
    return ObservedWorkerStatus.PENDING if role.process.heartbeat is None else ObservedWorkerStatus.RUNNING


def _describe_oom_kill(process: WorkerProcess) -> str:
    if process.was_killed_over_limit:
        return OVER_LIMIT_REASON
    return "killed for memory by the kernel: the machine, or the control group of the controller, has too little memory"


def _describe_exit(exit_status: int, last_reason: str) -> str:
    """Return why a worker ended, from its exit status and the last reason that it reported."""
    end = f"killed by {signal.Signals(-exit_status).name}" if exit_status < 0 else f"ended with status {exit_status}"
    return f"{end}; its last report: {last_reason}" if last_reason else end
