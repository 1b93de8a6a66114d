"""The worker's status: the state and the reason that its heartbeats carry."""

from collections import deque
from collections.abc import Iterable, Mapping, Set

import structlog

from headwater.engine.chain import Rejected
from headwater.engine.isolation import Isolation
from headwater.sources.base import Gap

log = structlog.get_logger(__name__)

CRASH_WINDOW_S = 60.0
MAX_CRASHES = 60
"""With more crashes than this in CRASH_WINDOW_S the worker is `crashing`."""
FEW_CRASHES = 20
"""With no more crashes than this in CRASH_WINDOW_S the worker is not `crashing` any more."""
PAUSE_PER_CRASH_S = 1.0
MAX_CRASH_PAUSE_S = 10.0
CRASH_ERRORS = frozenset({"SandboxCrash", "OutOfMemory"})
"""Error classes of records that ended the V8 process."""
GAP_SHOWN_S = 900.0
"""How long the reason names a gap."""
KAFKA_WAIT_SHOWN_S = 3.0
"""How long the worker may wait for Kafka before the reason says so."""
NO_PARTITIONS = "Kafka has assigned no partitions to this worker yet: the worker waits for its group, or for Kafka."


class CrashRate:
    """Slows a worker down whose records end the V8 process again and again: each costs the start of a process.

    Attributes:
        reason: Says that there are too many crashes; empty while there are few.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._crashed_at: deque[float] = deque()

    def record(self, rejected: Iterable[Rejected], now: float) -> float:
        """Count the crashes among the rejected records of a batch.

        Returns how many seconds the worker must pause before the next batch.
        """
        new = sum(each.failure.error in CRASH_ERRORS for each in rejected)
        self._crashed_at.extend([now] * new)
        self.expire(now)
        return min(MAX_CRASH_PAUSE_S, new * PAUSE_PER_CRASH_S) if self.reason else 0.0

    def expire(self, now: float) -> None:
        """Forget the crashes that are older than CRASH_WINDOW_S."""
        while self._crashed_at and self._crashed_at[0] <= now - CRASH_WINDOW_S:
            self._crashed_at.popleft()
        if len(self._crashed_at) > MAX_CRASHES:
            self.reason = (
                f"More than {MAX_CRASHES} records a minute end the V8 process of the scripts. These records become "
                "dead letters, and the others are delivered slowly. Correct the script: most often it needs too much "
                "memory."
            )
        elif len(self._crashed_at) <= FEW_CRASHES:
            self.reason = ""


class Readability:
    """Logs and shows what of the source is not read: deleted records, and partitions that can't be read at the moment.

    Attributes:
        unreadable: The reason why a partition can't be read at the moment, by partition.
    """

    def __init__(self) -> None:
        self.unreadable: Mapping[int, str] = {}
        self._last_gap = ""
        self._gap_shown_until = float("-inf")

    def record_gap(self, gap: Gap, now: float) -> None:
        """Log a gap that the worker has passed, and show it for GAP_SHOWN_S."""
        self._last_gap, self._gap_shown_until = str(gap), now + GAP_SHOWN_S
        log.error(self._last_gap)

    def set_unreadable(self, unreadable: Mapping[int, str]) -> None:
        """Replace the partitions that can't be read; the first ones are logged."""
        if unreadable and not self.unreadable:
            log.warning("partitions can't be read", reasons=list(dict.fromkeys(unreadable.values())))
        self.unreadable = unreadable

    def reasons(self, now: float) -> list[str]:
        """Return a sentence for each different reason, and the last gap while it is shown."""
        gaps = [self._last_gap] if now < self._gap_shown_until else []
        return [*dict.fromkeys(self.unreadable.values()), *gaps]


class Assignment:
    """The partitions that the group has assigned to the worker, and how long the worker has waited for some.

    Attributes:
        has_joined: Whether the group has answered at least once, even with no partitions.
    """

    def __init__(self) -> None:
        self.has_joined = False
        self._partitions: set[int] = set()
        self._waiting_since: float | None = None

    def joining(self, now: float) -> None:
        """Record that the worker joins the group now; `now` is in monotonic seconds."""
        self._waiting_since = now

    def lost(self) -> None:
        """Record that another worker has the partitions, and that this worker waits for new ones."""
        self._waiting_since = float("-inf")

    def add(self, partitions: Iterable[int]) -> None:
        """Record partitions that the group has assigned in addition to the others."""
        self.has_joined = True
        self._partitions.update(partitions)
        self._waiting_since = None

    def remove(self, partitions: Iterable[int]) -> None:
        """Record partitions that the worker has no more."""
        self._partitions.difference_update(partitions)

    def reason(self, now: float) -> str:
        """Return NO_PARTITIONS when the worker has waited for long, else the empty string."""
        waits = self._waiting_since is not None and now - self._waiting_since >= KAFKA_WAIT_SHOWN_S
        return NO_PARTITIONS if waits else ""

    def is_cut_off(self, unreadable: Set[int]) -> bool:
        """Return whether none of the worker's partitions can be read."""
        return bool(self._partitions) and self._partitions <= unreadable


class WorkerStatus:
    """Combines what keeps a worker from reading, transforming and delivering all of its records."""

    def __init__(self, isolation: Isolation) -> None:
        self.crashes = CrashRate()
        self.readability = Readability()
        self.assignment = Assignment()
        self._isolation = isolation

    def state(self, now: float, waits_for: str, stage: str = "") -> tuple[str, str]:
        """Return the state and the reason of a heartbeat.

        waits_for: what the worker itself waits for, as a sentence; empty when it does not wait. stage: `prepared`
        before the worker joins its group, `draining` while it ends, else empty.
        """
        self.crashes.expire(now)
        reason = waits_for or self.assignment.reason(now)
        state = self._state(reason, stage)
        if state == "crashing":
            reason = self.crashes.reason
        return state, " ".join(filter(None, (reason, *self.readability.reasons(now), *self._isolation.reasons())))

    def _state(self, reason: str, stage: str) -> str:
        if stage == "draining":
            return stage
        if self.crashes.reason:
            return "crashing"
        unreadable = self.readability.unreadable.keys() | self._isolation.not_read().keys()
        if reason or self.assignment.is_cut_off(unreadable):
            return "waiting"
        return stage or ("ready" if self.assignment.has_joined else "starting")
