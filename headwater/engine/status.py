"""Derives the state and the reason that a worker's heartbeats carry."""

from collections import deque
from collections.abc import Iterable, Mapping, Set

import structlog

from headwater.engine.in_flight_batch import FailedRecord
from headwater.engine.partition_isolation import PartitionIsolation
from headwater.sources.base import Gap

log = structlog.get_logger(__name__)

CRASH_WINDOW_S = 60.0
MAX_CRASHES = 60
"""With more crashes than this in CRASH_WINDOW_S the worker is `crashing`."""
FEW_CRASHES = 20
"""With at most this many crashes in CRASH_WINDOW_S the worker is no longer `crashing`."""
PAUSE_PER_CRASH_S = 1.0
MAX_CRASH_PAUSE_S = 10.0
CRASH_ERRORS = frozenset({"SandboxCrash", "OutOfMemory"})
"""Error classes of records that ended the V8 process."""
GAP_REPORTED_FOR_S = 900.0
"""For how long the reason mentions a gap."""
KAFKA_WAIT_REPORTED_AFTER_S = 3.0
"""How long the worker may wait for Kafka before the reason mentions the wait."""
NO_PARTITIONS = (
    "Kafka has assigned no partitions to this worker yet: its consumer group is rebalancing, or Kafka is unavailable."
)


class CrashThrottle:
    """Slows down a worker whose records crash the V8 process, since each crash costs a start.

    Attributes:
        reason: Says that there are too many crashes; empty while there are few.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._crashed_at: deque[float] = deque()

    def record(self, failed_records: Iterable[FailedRecord], now: float) -> float:
        """Count the crashes among the failed records of a batch.

        Returns how many seconds the worker must pause before the next batch.
        """
        crashes = sum(failed.failure.error in CRASH_ERRORS for failed in failed_records)
        self._crashed_at.extend([now] * crashes)
        self.expire(now)
        return min(MAX_CRASH_PAUSE_S, crashes * PAUSE_PER_CRASH_S) if self.reason else 0.0

    def expire(self, now: float) -> None:
        """Forget the crashes that are older than CRASH_WINDOW_S, and update `reason`."""
        while self._crashed_at and self._crashed_at[0] <= now - CRASH_WINDOW_S:
            self._crashed_at.popleft()
        if len(self._crashed_at) > MAX_CRASHES:
            self.reason = (
                f"Records crash the V8 process of the scripts: there were more than {MAX_CRASHES} crashes within a "
                f"minute, and the worker stays slow until a minute has at most {FEW_CRASHES}. These records become "
                "dead letters. Correct the script: most often it needs too much memory."
            )
        elif len(self._crashed_at) <= FEW_CRASHES:
            self.reason = ""


class UnreadRecords:
    """Reports gaps and unreadable partitions of the source, whose records are not read.

    Attributes:
        unreadable: The reason why a partition can't be read at the moment, by partition.
    """

    def __init__(self) -> None:
        self.unreadable: Mapping[int, str] = {}
        self._last_gap = ""
        self._gap_reported_until = float("-inf")

    def record_gap(self, gap: Gap, now: float) -> None:
        """Log a gap that the source has skipped. `reasons` mentions it for GAP_REPORTED_FOR_S."""
        self._last_gap, self._gap_reported_until = str(gap), now + GAP_REPORTED_FOR_S
        log.error(self._last_gap)

    def set_unreadable(self, unreadable: Mapping[int, str]) -> None:
        """Replace the unreadable partitions, and log them when there were none before."""
        if unreadable and not self.unreadable:
            log.warning("partitions can't be read", reasons=list(dict.fromkeys(unreadable.values())))
        self.unreadable = unreadable

    def reasons(self, now: float) -> list[str]:
        """Return each different reason of unreadable partitions, and a sentence about the last gap."""
        gaps = [self._last_gap] if now < self._gap_reported_until else []
        return [*dict.fromkeys(self.unreadable.values()), *gaps]


class Assignment:
    """The assigned partitions of the worker, and how long it has waited for an assignment.

    Attributes:
        has_joined: Whether the group has sent an assignment at least once. An assignment of no partitions counts.
    """

    def __init__(self) -> None:
        self.has_joined = False
        self._partitions: set[int] = set()
        self._waiting_since: float | None = None

    def on_joining(self, now: float) -> None:
        """Take note that the worker joins the group now; `now` is in monotonic seconds."""
        self._waiting_since = now

    def on_lost(self) -> None:
        """Take note that this worker has lost its membership, and waits for an assignment."""
        self._waiting_since = float("-inf")

    def on_assigned(self, partitions: Iterable[int]) -> None:
        """Add partitions that the group has assigned."""
        self.has_joined = True
        self._partitions.update(partitions)
        self._waiting_since = None

    def remove_partitions(self, partitions: Iterable[int]) -> None:
        """Remove partitions that were revoked or lost."""
        self._partitions.difference_update(partitions)

    def reason(self, now: float) -> str:
        """Return NO_PARTITIONS when the worker has waited for KAFKA_WAIT_REPORTED_AFTER_S, else "".

        It is returned at once after `on_lost`.
        """
        waits_long = self._waiting_since is not None and now - self._waiting_since >= KAFKA_WAIT_REPORTED_AFTER_S
        return NO_PARTITIONS if waits_long else ""

    def reads_nothing(self, unreadable: Set[int]) -> bool:
        """Return whether the worker has partitions, and every partition is in `unreadable`."""
        return bool(self._partitions) and self._partitions <= unreadable


class WorkerStatus:
    """Combines everything that impairs a worker: crashes, missing partitions, gaps, isolation."""

    def __init__(self, isolation: PartitionIsolation) -> None:
        self.crashes = CrashThrottle()
        self.unread = UnreadRecords()
        self.assignment = Assignment()
        self._isolation = isolation

    def state(self, now: float, waits_for: str, phase: str = "") -> tuple[str, str]:
        """Return the state and the reason of a heartbeat.

        Args:
            now: Monotonic seconds.
            waits_for: What the worker's loop waits for, as a sentence; empty when it does not wait.
            phase: `prepared` before the worker joins its group, `draining` while it ends, else empty.
        """
        self.crashes.expire(now)
        reason = waits_for or self.assignment.reason(now)
        state = self._state(reason, phase)
        if state == "crashing":
            reason = self.crashes.reason
        return state, " ".join(filter(None, (reason, *self.unread.reasons(now), *self._isolation.reasons())))

    def _state(self, reason: str, phase: str) -> str:
        if phase == "draining":
            return phase
        if self.crashes.reason:
            return "crashing"
        unreadable = self.unread.unreadable.keys() | self._isolation.unreadable().keys()
        if reason or self.assignment.reads_nothing(unreadable):
            return "waiting"
        return phase or ("ready" if self.assignment.has_joined else "starting")
