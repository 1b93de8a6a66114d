"""One worker slot of the process orchestrator: the wanted spec, the running process, and its status."""

import signal
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headwater.children import Backoff
from headwater.model.deployment import LogLine, Status, WorkerStatus
from headwater.model.worker import FENCED_STATUS, Heartbeat
from headwater.orchestrators.memory_deaths import MemoryDeaths
from headwater.orchestrators.running import QUIET_AFTER_S, STUCK_AFTER_S, Running

CRASH_LOOP_DEATHS = 2
MAX_LINES_HELD = 1000
OOM_SHOWN_FOR_S = 900.0
"""How long a worker that was killed for memory is shown as such, after it runs again."""
OVER_LIMIT = "killed for memory: with its scripts' process it needed more than worker_memory_mb allows"
SCRIPTS_KILLED = (
    "The kernel killed the scripts' process for memory: with its worker it needed more than worker_memory_mb allows. "
    "The worker goes on with a new one."
)
QUIET = (
    f"It has made no progress for more than {QUIET_AFTER_S:.0f} s. "
    f"At {STUCK_AFTER_S:.0f} s it is killed and started again."
)


@dataclass(slots=True)
class Role:
    """A place for one process of one spec: the worker of a slot, or the successor that prepares.

    Attributes:
        spec_hash: The spec of the process that should run here; None when none should.
        deaths: Deaths with this spec, apart from those of a record that workers of the last spec died of too.
        died_of_memory: Whether the last process was killed for memory.
        is_fenced: Whether another worker has fenced the last process.
    """

    spec_hash: str | None = None
    running: Running | None = None
    deaths: int = 0
    deaths_in_a_row: int = 0
    restart_at: float = 0.0
    reason: str = ""
    backoff: Backoff = field(default_factory=Backoff)
    oom_killed_at: float | None = None
    died_of_memory: bool = False
    is_fenced: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether the running process has the wanted spec."""
        return self.running is not None and self.running.spec_hash == self.spec_hash

    def want(self, spec_hash: str | None) -> None:
        """Set the wanted spec. Another spec starts at once, without the back-off of the last one."""
        if spec_hash != self.spec_hash:
            self.spec_hash, self.restart_at, self.deaths, self.deaths_in_a_row = spec_hash, 0.0, 0, 0
            self.reason, self.oom_killed_at, self.died_of_memory = "", None, False
            self.backoff.reset()

    def beat(self, heartbeat: Heartbeat) -> None:
        """Note a sign of life."""
        self.reason = heartbeat.reason
        if heartbeat.committed_batches:
            self.backoff.reset()
            self.deaths_in_a_row = 0

    def died(self, reason: str, now: float, *, is_of_spec: bool = True) -> None:
        """Note an unexpected end or a failed start, and delay the next start."""
        self.deaths += is_of_spec
        self.deaths_in_a_row += 1
        self.reason = reason
        self.restart_at = now + self.backoff.next_s()


@dataclass(slots=True)
class Slot:
    """A slot; used under the orchestrator's lock. deaths: those of its workers since the slot was made."""

    name: str
    worker: Role = field(default_factory=Role)
    successor: Role = field(default_factory=Role)
    deaths: int = 0
    memory_deaths: MemoryDeaths = field(default_factory=MemoryDeaths)
    made_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=MAX_LINES_HELD))

    @property
    def is_prepared(self) -> bool:
        """Whether the successor could join at once."""
        running = self.successor.running
        return running is not None and self.successor.is_wanted and running.is_prepared

    @property
    def is_empty(self) -> bool:
        """True when nothing runs here, and nothing should."""
        roles = (self.worker, self.successor)
        return all(role.spec_hash is None and role.running is None for role in roles)

    @property
    def spec_hashes(self) -> Iterator[str]:
        """The spec hashes of all processes that run here or should."""
        for role in (self.worker, self.successor):
            if role.spec_hash is not None:
                yield role.spec_hash
            if role.running is not None:
                yield role.running.spec_hash

    @property
    def hands_over(self) -> bool:
        """Whether the worker is ending so that a successor takes over."""
        return self.worker.running is not None and self.worker.spec_hash is not None and not self.worker.is_wanted

    def hand_over(self) -> None:
        """Make the successor's spec the worker's; `promote` follows when the worker has ended."""
        self.worker.want(self.successor.spec_hash)

    def promote(self) -> bool:
        """Make the successor the worker, when the worker has ended and the successor has the worker's spec."""
        running = self.successor.running
        if running is None or running.stop_by is not None or self.worker.running is not None:
            return False
        if not self.successor.is_wanted or running.spec_hash != self.worker.spec_hash:
            return False  # it prepares for what comes after this hand-over, or has to go
        self.worker, self.successor = self.successor, Role()
        return True

    def forget_lost_successor(self) -> None:
        """Clear a successor that died during the hand-over: the worker's role starts its spec instead."""
        if self.successor.running is None and self.successor.spec_hash == self.worker.spec_hash:
            self.successor.want(None)

    def heard(self, running: Running, heartbeat: Heartbeat) -> None:
        """Note a sign of life of a worker or successor, and the lines that came with it."""
        for role in (self.worker, self.successor):
            if role.running is running:
                role.beat(heartbeat)
        if self.worker.running is running and heartbeat.isolation is not None:
            self.memory_deaths.heard(running.spec_hash, heartbeat.isolation)
        self.lines.extend(
            LogLine(time=line.time, worker=self.name, source=line.source, level=line.level, message=line.message)
            for line in heartbeat.logs
        )

    def ended(self, role: Role, status: int, now: float) -> None:
        """Note the end of a process."""
        running = role.running
        assert running is not None
        role.running = None
        role.is_fenced = status == FENCED_STATUS
        role.died_of_memory = False
        running.close()
        if running.stop_by is not None:
            return
        if running.stuck:
            self.died(role, f"killed: it made no progress for {STUCK_AFTER_S:.0f} s", now)
        elif status == -signal.SIGKILL and (running.over_limit or running.kills.is_recent):
            role.oom_killed_at, role.died_of_memory = now, True
            is_known = role is self.worker and self.memory_deaths.died(running.spec_hash, running.heartbeat, now)
            self.died(role, _describe_oom(running), now, is_of_spec=not is_known)
        else:
            self.died(role, _describe(status, running.reason), now)

    def died(self, role: Role, reason: str, now: float, *, is_of_spec: bool = True) -> None:
        """Note a death. is_of_spec: see Role.deaths."""
        role.died(reason, now, is_of_spec=is_of_spec)
        self.deaths += role is self.worker
        self.log("error", reason)

    def log(self, level: str, message: str) -> None:
        """Add a line to the deployment's log."""
        self.lines.append(
            LogLine(time=datetime.now(UTC), worker=self.name, source="worker", level=level, message=message)
        )

    def status(self, role: Role, now: float) -> WorkerStatus:
        """The status of a worker or successor, as `deploy/stats` shows it."""
        state, running = _state(role), role.running
        said = running.heartbeat.state if running is not None and running.heartbeat is not None else ""
        quiet = state is Status.RUNNING and running is not None and running.is_quiet and said != "waiting"
        return WorkerStatus(
            name=self.name,
            status=state,
            is_ready=state is Status.RUNNING and said == "ready" and not quiet,
            is_crash_looping=state is Status.CRASH_LOOP_BACK_OFF,
            is_oom_killed=role.oom_killed_at is not None and now - role.oom_killed_at < OOM_SHOWN_FOR_S,
            restart_count=self.deaths,
            start_time=running.start_time if running is not None else self.made_at,
            reason=QUIET if quiet else (running.reason if running is not None else "") or role.reason,
            spec_hash=role.spec_hash or "",
            deaths=role.deaths,
            waits=said == "waiting",
        )


def _state(role: Role) -> Status:
    if role.running is None:
        if role.deaths_in_a_row >= CRASH_LOOP_DEATHS:
            return Status.CRASH_LOOP_BACK_OFF
        return Status.OOM_KILLED if role.died_of_memory else Status.PENDING
    if role.running.stop_by is not None or not role.is_wanted:
        return Status.TERMINATING
    said = role.running.heartbeat
    if said is not None and said.state == "crashing":
        return Status.CRASH_LOOP_BACK_OFF
    return Status.PENDING if said is None else Status.RUNNING


def _describe_oom(running: Running) -> str:
    if running.over_limit:
        return OVER_LIMIT
    return "killed for memory by the kernel: the machine, or the control group of this process, has too little"


def _describe(status: int, last_reason: str) -> str:
    """Why a worker ended, from its wait status and what it said last."""
    ended = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return f"{ended}; it last said: {last_reason}" if last_reason else ended
