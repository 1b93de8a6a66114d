"""Writes a worker's metrics to the metric store.

It counts each source record once and never delays the pipeline. A write happens after the acknowledgements of the sinks
and before the commit of the positions. It adds the counts and, in the same atomic step, stores for each partition the
counted offset: the position up to which records are counted. A worker that is killed between the write and the commit
leaves counted offsets above the committed positions. The next owner of the partition reads these records again, but
does not count them again. The store rejects the counts of a partition from a worker that does not own the partition any
more.

While the store is unavailable, the metrics of each minute are kept in memory, and the write is retried. A write whose
answer was lost is repeated unchanged: the store detects by the counted offsets whether it has already done the write.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable

import structlog

from headwater.engine.metrics.pending_metrics import PendingMetrics
from headwater.errors import RedisUnavailable
from headwater.model.metric import MetricsDelta
from headwater.model.record import count_values
from headwater.sources.base import Positions
from headwater.stores.protocols.metrics import MetricStore

log = structlog.get_logger(__name__)

MIN_RETRY_S, MAX_RETRY_S = 1.0, 10.0
"""The delay before a retry after a failed write, at first and at most. A retry may block for the store's timeout."""
MAX_WRITES_AT_ONCE = 100
MAX_UNDECIDED = 200_000
"""How many undecided records of a partition are kept, at 16 to 32 bytes each.

A crash leaves fewer records between the committed and the counted offset.
"""


class MetricsWriter:
    """Writes the metrics of one worker. Used by the engine's thread.

    A record is undecided while the counted offset of its partition is unknown: it may be counted already. A partition
    is full when MAX_UNDECIDED of its records are undecided; all later records of a full partition are new.

    owner: a name that is unique to this worker process. clock: monotonic seconds.
    """

    def __init__(
        self,
        store: MetricStore,
        *,
        deployment_id: str,
        group: str,
        owner: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._key = (deployment_id, group, owner)
        self._clock = clock
        self._pending: deque[tuple[int, PendingMetrics]] = deque()
        """By minute, in order: the metrics that are not written yet."""
        self._unanswered: MetricsDelta | None = None
        """A write that the store has not answered yet."""
        self._unacquired: set[int] = set()
        """Partitions whose counted offset was not read yet."""
        self._counted_offsets: Positions = {}
        self._catching_up: set[int] = set()
        """Partitions whose records may be below their counted offset."""
        self._counted_to: Positions = {}
        """Up to where this worker has counted."""
        self._undecided_counts = Counter[int]()
        self._retry_at = float("-inf")
        self._retry_delay_s = MIN_RETRY_S

    def are_all_new(self, partitions: Iterable[int]) -> bool:
        """Return whether no record that is read now from these partitions can be counted already."""
        return self._unacquired.isdisjoint(partitions) and self._catching_up.isdisjoint(partitions)

    def assigned(self, partitions: Iterable[int]) -> None:
        """Take over the counting of these partitions."""
        new = set(partitions)
        self._counted_offsets.update({p: self._counted_to.get(p, 0) for p in new})
        self._unacquired |= new
        self.flush()

    def rewound(self, positions: Positions) -> None:
        """Record that records are read again from these positions on."""
        full = self._full()  # the undecided records of full partitions stay, and are skipped when they are read again
        positions = {p: position for p, position in positions.items() if p not in full}
        self._drop_undecided(positions)
        self._counted_offsets.update(
            {p: max(self._counted_offsets.get(p, 0), self._counted_to.get(p, 0)) for p in positions}
        )
        self._catching_up |= {p for p, position in positions.items() if position < self._counted_offsets[p]}

    def _drop_undecided(self, positions: Positions) -> None:
        self._undecided_counts.clear()
        for _, metrics in self._pending:
            metrics.drop_undecided(positions)
            self._count_undecided(metrics)

    def released(self, partitions: Iterable[int]) -> None:
        """Drop the undecided records of partitions that this worker has lost.

        Counts of committed records stay.
        """
        lost = set(partitions)
        self._drop_undecided(dict.fromkeys(lost, 0))
        self._unacquired -= lost
        self._catching_up -= lost

    def add(self, minute: int, metrics: PendingMetrics) -> None:
        """Add the metrics of acknowledged records whose positions are not committed yet."""
        self._extend_counted(metrics.end_offsets)
        self._decide_new(metrics)
        if self._pending and self._pending[-1][0] == minute:
            self._pending[-1][1].add(metrics)
        else:
            self._pending.append((minute, metrics))

    def _extend_counted(self, end_offsets: Positions) -> None:
        self._counted_to |= {p: max(end, self._counted_to.get(p, 0)) for p, end in end_offsets.items()}

    def _decide(self, metrics: PendingMetrics, counted_offsets: Positions) -> None:
        batch_ends = metrics.decide(counted_offsets)
        self._extend_counted(metrics.end_offsets)
        self._catching_up -= {p for p, end in batch_ends.items() if end >= self._counted_offsets.get(p, 0)}

    def _decide_new(self, metrics: PendingMetrics) -> None:
        """Decide all records except those of unacquired partitions that are not full.

        Only these exceptions may have been counted.
        """
        full = self._full()
        unknown = self._unacquired - full
        decided = PendingMetrics(undecided=[batch.filter(lambda p, _: p not in unknown) for batch in metrics.undecided])
        undecided = [batch.filter(lambda p, _: p in unknown) for batch in metrics.undecided]
        metrics.undecided = [batch for batch in undecided if batch]
        self._count_undecided(metrics)
        self._decide(decided, self._counted_offsets | {p: self._counted_to[p] for p in full})
        metrics.add(decided)

    def _count_undecided(self, metrics: PendingMetrics) -> None:
        """Count the undecided records of each partition.

        A full partition counts as counted up to its last one.
        """
        for batch in metrics.undecided:
            self._undecided_counts.update(count_values(batch.partitions))
            full = self._full()
            self._extend_counted({p: end for p, end in batch.end_offsets().items() if p in full})

    def _full(self) -> set[int]:
        return {p for p, records in self._undecided_counts.items() if records >= MAX_UNDECIDED}

    def flush(self, *, at_once: bool = False) -> None:
        """Write the pending metrics.

        After a failure, wait for the retry delay unless `at_once` is set.
        """
        if not at_once and self._clock() < self._retry_at:
            return
        try:
            self._acquire()
            for _ in range(MAX_WRITES_AT_ONCE):
                if not self._write():
                    break
        except RedisUnavailable as error:
            if self._retry_at == float("-inf"):
                log.warning("metrics are kept until the metric store is available again", reason=error.detail)
            self._retry_at = self._clock() + self._retry_delay_s
            self._retry_delay_s = min(MAX_RETRY_S, 2 * self._retry_delay_s)
        else:
            self._retry_at = float("-inf")
            self._retry_delay_s = MIN_RETRY_S

    def _acquire(self) -> None:
        """Acquire new partitions in the store, read their offsets, and decide undecided records."""
        if self._unacquired:
            found = self._store.acquire_partitions(*self._key, sorted(self._unacquired))
            self._counted_offsets.update({p: max(offset, self._counted_offsets[p]) for p, offset in found.items()})
            self._catching_up |= {p for p in self._unacquired if self._counted_offsets[p]}
            self._unacquired.clear()
        for _, metrics in self._pending:
            if metrics.undecided:
                self._decide(metrics, self._counted_offsets)
        full = self._full()
        self._counted_offsets.update({p: max(self._counted_offsets[p], self._counted_to[p]) for p in full})
        self._catching_up |= full
        self._undecided_counts.clear()

    def _write(self) -> bool:
        """Write the metrics of one minute. Return False when none are left."""
        if self._unanswered is None:
            if not self._pending:
                return False
            minute, metrics = self._pending.popleft()
            self._unanswered = metrics.to_delta(minute)
        fenced = self._store.write(*self._key, self._unanswered)
        if fenced:
            log.warning("metrics were rejected: another worker owns these partitions", partitions=sorted(fenced))
            for partition in fenced:
                self._counted_to.pop(partition, None)
        self._unanswered = None
        return True
