"""Reads partitions one at a time after deaths by memory, to find the partition whose records take too much.

A record batch of Kafka may unpack to a thousand times its size. A worker that unpacks such a batch is killed, and so is
the next one, at the same position: no partition of the worker goes on. So the supervisor starts a worker with a
ReadingPlan. The worker tells the supervisor which partition it reads alone before it reads; a death then tells the
supervisor which partition to leave out.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import structlog

from headwater.model.worker import READ_ALL, IsolationStatus, PartitionPosition, ReadingPlan
from headwater.sources.base import Positions, Source

log = structlog.get_logger(__name__)

TURN_S = 2.0
"""The shortest turn of a partition that is read alone, longer than a supervisor needs to see the memory of a worker."""
QUIET_S = 1.0
"""How long nothing is read after a turn at least: the next partition must not be blamed for what was fetched last."""
RETRY_AFTER_S = 3600.0
"""How long a partition is not read, before it is read alone once more."""


class Isolation:
    """Tells the source which partitions to read, by a ReadingPlan; without a plan, it does nothing.

    A turn of a partition lasts at least TURN_S, and until a batch of the partition was committed or the partition has
    had no records for TURN_S. `advance` moves the turns on; clock: monotonic seconds.
    """

    def __init__(self, plan: ReadingPlan, source: Source, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._read_alone = plan.read_alone
        self._is_active = plan != READ_ALL
        self._quarantined: Positions = dict(plan.quarantined)
        self._retry_at: dict[int, float] = {}
        self._assigned: set[int] = set()
        self._unchecked: set[int] = set()
        self._turns: deque[int] = deque()
        self._alone: PartitionPosition | None = None
        self._is_reading = False
        self._has_committed = False
        self._began_at = self._idle_since = 0.0
        self._quiet_until: float | None = None
        self._allowed: frozenset[int] | None = None

    def start(self) -> None:
        """Let the source fetch nothing yet. Call it before the worker joins its group."""
        if self._is_active:
            self._restrict(frozenset())
            if self._read_alone:
                log.warning("workers were killed for memory: each partition is read alone first")

    def _restrict(self, partitions: frozenset[int] | None) -> None:
        if partitions != self._allowed:
            self._source.read_only(partitions)
            self._allowed = partitions

    def assigned(self, partitions: Iterable[int]) -> None:
        """Plan the reading of new partitions."""
        new = set(partitions)
        self._assigned |= new
        self._unchecked |= new & self._quarantined.keys()
        if self._read_alone:
            self._turns.extend(sorted(new - self._quarantined.keys()))

    def dropped(self, partitions: Iterable[int]) -> None:
        """Forget partitions that another worker may have from now on."""
        gone = set(partitions)
        self._assigned -= gone
        self._unchecked -= gone
        self._turns = deque(p for p in self._turns if p not in gone)
        for partition in gone:
            self._release(partition)
        if self._alone is not None and self._alone.partition in gone:
            self._is_reading, self._quiet_until = False, self._clock() + QUIET_S

    def _release(self, partition: int) -> None:
        self._quarantined.pop(partition, None)
        self._retry_at.pop(partition, None)

    def advance(self, announce: Callable[[], bool], *, is_busy: bool) -> None:
        """Move the turns on. Raises BrokerUnavailable: call it again.

        announce: sends `figures` to the supervisor, and returns whether the supervisor will read them. is_busy: whether
        records that were read are not committed yet.
        """
        if not self._is_active or not self._assigned:
            return
        now = self._clock()
        self._check_quarantined(now)
        self._retry(now)
        if self._alone is not None and self._quiet_until is not None and now >= self._quiet_until and not is_busy:
            self._release(self._alone.partition)
            self._alone = self._quiet_until = None
        if self._alone is None and self._turns:
            self._begin_turn()
        if self._alone is not None and not self._is_reading and self._quiet_until is None:
            self._read_if_announced(announce)
        elif self._is_over:
            self._read_the_others()

    def _check_quarantined(self, now: float) -> None:
        """Read a quarantined partition alone when its position has moved: it is at another record batch."""
        if not self._unchecked:
            return
        committed = self._source.committed()
        for partition in sorted(self._unchecked):
            if committed.get(partition, 0) != self._quarantined[partition]:
                self._release(partition)
                self._turns.append(partition)
            else:
                self._retry_at[partition] = now + RETRY_AFTER_S
                log.error(_not_read(partition, self._quarantined[partition]))
        self._unchecked.clear()

    def _retry(self, now: float) -> None:
        for partition, at in self._retry_at.items():
            if now >= at:
                self._retry_at[partition] = now + RETRY_AFTER_S
                self._turns.append(partition)

    def _begin_turn(self) -> None:
        committed = self._source.committed()
        partition = self._turns.popleft()
        self._alone = PartitionPosition(partition, committed.get(partition, 0))
        self._is_reading = self._has_committed = False

    def _read_if_announced(self, announce: Callable[[], bool]) -> None:
        """Read only when the supervisor is sure to hear of the partition: it is to blame for a death from now on."""
        assert self._alone is not None
        self._restrict(frozenset())
        if announce():
            self._restrict(frozenset({self._alone.partition}))
            self._is_reading = True
            self._began_at = self._idle_since = self._clock()

    def _read_the_others(self) -> None:
        self._read_alone = False
        self._restrict(frozenset(self._assigned - self._quarantined.keys()) if self._quarantined else None)

    def polled(self, *, is_busy: bool) -> None:
        """Note that the source was asked for records. is_busy: see `advance`."""
        if not self._is_reading:
            return
        now = self._clock()
        if is_busy:
            self._idle_since = now
        is_done = self._has_committed or now - self._idle_since >= TURN_S
        if is_done and now - self._began_at >= TURN_S:
            self._end_turn()

    def interrupted(self) -> None:
        """Note that the source hands out no records at the moment, so that an empty poll says nothing."""
        self._idle_since = self._clock()

    def committed(self, positions: Positions) -> None:
        """Note positions that were committed."""
        if self._alone is not None and self._alone.partition in positions:
            self._alone = PartitionPosition(self._alone.partition, positions[self._alone.partition])
            self._has_committed = True

    def _end_turn(self) -> None:
        assert self._alone is not None
        self._restrict(frozenset())
        self._is_reading, self._quiet_until = False, self._clock() + QUIET_S

    @property
    def _is_over(self) -> bool:
        return bool(self._assigned) and self._alone is None and not self._turns and not self._unchecked

    def figures(self) -> dict[str, Any]:
        """The member of a heartbeat that tells the supervisor of isolation."""
        if not self._is_active or not self._assigned:
            return {}
        left = [PartitionPosition(p, offset) for p, offset in sorted(self._quarantined.items())]
        return {"isolation": IsolationStatus(alone=self._alone, is_over=self._is_over, quarantined=left)}

    def not_read(self) -> dict[int, str]:
        """The partitions that are left out, each with the reason and what to do."""
        return {p: _not_read(p, offset) for p, offset in sorted(self._quarantined.items()) if p in self._assigned}

    def reasons(self) -> Iterator[str]:
        """All that a user should know of isolation."""
        if self._alone is not None:
            yield (
                "Workers were killed for memory, so each partition is read alone first. "
                f"Partition {self._alone.partition} is read now, from offset {self._alone.offset} on."
            )
        yield from self.not_read().values()


def _not_read(partition: int, offset: int) -> str:
    return (
        f"Partition {partition} of the stream is not read from offset {offset} on: a worker that read only this "
        "partition was killed for memory. Raise HEADWATER_WORKER_MEMORY_MB, or delete the partition's records up to "
        "the end of the large record batch. The partition is tried again after a restart, with the next revision, and "
        "every hour."
    )
