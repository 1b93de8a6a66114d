"""Reads partitions one at a time to find the one for which workers are killed.

A compressed record batch of Kafka may decompress to a thousand times its size. A worker that decompresses such a batch
is killed, and so is the next worker, at the same position: no partition of the worker makes progress. So the
orchestrator starts a worker with a ReadingPlan. Before this worker reads a partition alone, it names the partition in a
heartbeat. If the worker is killed for memory then, the orchestrator quarantines that partition.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import Any

import structlog

from headwater.model.reading_plan import READ_ALL, IsolationStatus, PartitionPosition, ReadingPlan
from headwater.sources.base import Positions, Source

log = structlog.get_logger(__name__)

TURN_S = 2.0
"""How long one partition is read alone in a turn, at least.

An orchestrator needs less time than this to notice that a worker uses too much memory.
"""
PAUSE_S = 1.0
"""The minimum pause at the end of a turn.

Without it, the next partition could be blamed for records that were fetched from this one.
"""
RETRY_AFTER_S = 3600.0
"""How long a quarantined partition is not read before it is read alone once more."""


class _Phase(Enum):
    """The phase of a turn, in which one partition is read alone."""

    NO_TURN = auto()
    """No partition is read alone."""
    ANNOUNCING = auto()
    """Nothing is read, until the orchestrator learns which partition is read next."""
    READING = auto()
    """Only the partition is read."""
    PAUSING = auto()
    """Nothing is read, until the pause is over and all records of the partition are committed."""


class PartitionIsolation:
    """Tells the source which partitions to read, according to a ReadingPlan.

    With the plan READ_ALL it does nothing. In a turn, one partition is announced, read alone, and committed. The
    reading lasts at least TURN_S, and until a batch of the partition was committed or the partition has had no records
    for TURN_S. A pause ends the turn.

    Args:
        source: The source of the worker.
        clock: Monotonic seconds.
    """

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._isolates_partitions = self._is_active = False
        self._quarantined: Positions = {}
        self._retry_at: dict[int, float] = {}
        """By quarantined partition: when it is read alone once more."""
        self._assigned: set[int] = set()
        self._unchecked: set[int] = set()
        """Quarantined partitions whose committed positions were not read since their assignment."""
        self._turns: deque[int] = deque()
        """Partitions that are read alone after the present one."""
        self._phase = _Phase.NO_TURN
        self._isolated: PartitionPosition | None = None
        """The partition of the present turn, and its committed position."""
        self._has_committed = False
        self._began_at = self._idle_since = self._pause_until = 0.0
        self._allowed: frozenset[int] | None = None

    def start(self, reading_plan: ReadingPlan) -> None:
        """Follow a reading plan.

        Unless the plan is READ_ALL, the source reads nothing until `advance` is called. Call this method before the
        worker joins its group.
        """
        self._isolates_partitions = reading_plan.isolates_partitions
        self._is_active = reading_plan != READ_ALL
        self._quarantined = dict(reading_plan.quarantined)
        if self._is_active:
            self._restrict(frozenset())
            if self._isolates_partitions:
                log.warning("workers were killed for memory: each partition is read alone first")

    def _restrict(self, partitions: frozenset[int] | None) -> None:
        if partitions != self._allowed:
            self._source.restrict_to(partitions)
            self._allowed = partitions

    def on_assigned(self, partitions: Iterable[int]) -> None:
        """Plan when to read newly assigned partitions."""
        assigned = set(partitions)
        self._assigned |= assigned
        self._unchecked |= assigned & self._quarantined.keys()
        if self._isolates_partitions:
            self._turns.extend(sorted(assigned - self._quarantined.keys()))

    def remove_partitions(self, partitions: Iterable[int]) -> None:
        """Remove partitions that were revoked or lost.

        Their quarantine ends: the next owner, perhaps this worker again, reads them until it is killed itself.
        """
        removed = set(partitions)
        self._assigned -= removed
        self._unchecked -= removed
        self._turns = deque(partition for partition in self._turns if partition not in removed)
        for partition in removed:
            self._end_quarantine(partition)
        if self._isolated is not None and self._isolated.partition in removed:
            self._begin_pause()

    def _end_quarantine(self, partition: int) -> None:
        self._quarantined.pop(partition, None)
        self._retry_at.pop(partition, None)

    def advance(self, announce: Callable[[], bool], *, is_busy: bool) -> None:
        """Begin and end turns, and end the isolation after the last turn.

        Raises BrokerUnavailable: call it again.

        Args:
            announce: Sends `heartbeat_fields` to the orchestrator, and returns whether the orchestrator will read them.
            is_busy: Whether records that were read are not committed yet.
        """
        if not self._is_active or not self._assigned:
            return
        now = self._clock()
        self._check_quarantined(now)
        self._schedule_retries(now)
        if self._phase is _Phase.PAUSING and now >= self._pause_until and not is_busy:
            self._end_turn()
        if self._phase is _Phase.NO_TURN and self._turns:
            self._begin_turn()
        if self._phase is _Phase.ANNOUNCING:
            self._read_if_announced(announce)
        if self._is_over:
            self._end_isolation()

    def _check_quarantined(self, now: float) -> None:
        """Read a quarantined partition alone if its committed position has changed.

        The partition is at another record batch then.
        """
        if not self._unchecked:
            return
        committed = self._source.committed()
        for partition in sorted(self._unchecked):
            if committed.get(partition, 0) != self._quarantined[partition]:
                self._end_quarantine(partition)
                self._turns.append(partition)
            else:
                self._retry_at[partition] = now + RETRY_AFTER_S
                log.error(_quarantine_reason(partition, self._quarantined[partition]))
        self._unchecked.clear()

    def _schedule_retries(self, now: float) -> None:
        for partition, retry_at in self._retry_at.items():
            if now >= retry_at:
                self._retry_at[partition] = now + RETRY_AFTER_S
                self._turns.append(partition)

    def _begin_turn(self) -> None:
        committed = self._source.committed()
        partition = self._turns.popleft()
        self._isolated = PartitionPosition(partition, committed.get(partition, 0))
        self._has_committed = False
        self._phase = _Phase.ANNOUNCING

    def _read_if_announced(self, announce: Callable[[], bool]) -> None:
        """Read the partition only if the orchestrator will learn its name.

        If the worker is killed now, the orchestrator attributes the kill to the partition.
        """
        assert self._isolated is not None
        self._restrict(frozenset())
        if announce():
            self._restrict(frozenset({self._isolated.partition}))
            self._began_at = self._idle_since = self._clock()
            self._phase = _Phase.READING

    def on_polled(self, *, is_busy: bool) -> None:
        """Take note that the source was polled, and end the reading of a turn that is done.

        Args:
            is_busy: As in `advance`.
        """
        if self._phase is not _Phase.READING:
            return
        now = self._clock()
        if is_busy:
            self._idle_since = now
        is_done = self._has_committed or now - self._idle_since >= TURN_S
        if is_done and now - self._began_at >= TURN_S:
            self._restrict(frozenset())
            self._begin_pause()

    def on_paused(self) -> None:
        """Take note that the source is paused.

        An empty poll then does not mean that the partition has no records.
        """
        self._idle_since = self._clock()

    def on_committed(self, positions: Positions) -> None:
        """Take note of positions that were committed, or whose commit the source has accepted."""
        if self._isolated is not None and self._isolated.partition in positions:
            self._isolated = PartitionPosition(self._isolated.partition, positions[self._isolated.partition])
            self._has_committed = True

    def _begin_pause(self) -> None:
        self._pause_until = self._clock() + PAUSE_S
        self._phase = _Phase.PAUSING

    def _end_turn(self) -> None:
        assert self._isolated is not None
        self._end_quarantine(self._isolated.partition)
        self._isolated = None
        self._phase = _Phase.NO_TURN

    @property
    def _is_over(self) -> bool:
        is_between_turns = self._phase is _Phase.NO_TURN and not self._turns
        return bool(self._assigned) and is_between_turns and not self._unchecked

    def _end_isolation(self) -> None:
        """Read all partitions that are not quarantined."""
        self._isolates_partitions = False
        self._restrict(frozenset(self._assigned - self._quarantined.keys()) if self._quarantined else None)

    def heartbeat_fields(self) -> dict[str, Any]:
        """Return the heartbeat's field `isolation`."""
        if not self._is_active or not self._assigned:
            return {}
        quarantined = [PartitionPosition(*position) for position in sorted(self._quarantined.items())]
        return {"isolation": IsolationStatus(isolated=self._isolated, is_over=self._is_over, quarantined=quarantined)}

    def unreadable(self) -> dict[int, str]:
        """Return the quarantined partitions, each with the reason and what to do."""
        assigned = sorted(self._quarantined.keys() & self._assigned)
        return {partition: _quarantine_reason(partition, self._quarantined[partition]) for partition in assigned}

    def reasons(self) -> Iterator[str]:
        """Yield a sentence for the partition that is read alone, and for each quarantined one."""
        if self._isolated is not None:
            cause = (
                "Workers were killed for memory, so each partition is read alone first."
                if self._isolates_partitions
                else "A worker that read only this partition was killed for memory; it is tried again, alone."
            )
            yield f"{cause} Partition {self._isolated.partition} is read from offset {self._isolated.offset} on."
        yield from self.unreadable().values()


def _quarantine_reason(partition: int, offset: int) -> str:
    return (
        f"Partition {partition} of the stream is not read from offset {offset} on: a worker that read only this "
        "partition was killed for memory. Raise HEADWATER_WORKER_MEMORY_MB, or delete the partition's records up to "
        "the end of the large record batch. The partition is tried again after a restart of Headwater, "
        "with the next revision, and every hour."
    )
