"""Writes a worker's metrics to the metric store, which counts each source record once.

A write happens after the acknowledgements of the sinks and before the commit of the positions. It adds the counts and,
in the same atomic step, stores for each partition the counted offset: the position up to which records are counted. A
worker that is killed between the write and the commit leaves counted offsets above the committed positions. The next
worker of the partition reads these records again, but does not count them again. The store rejects the counts of a
partition from a worker to which the partition is not assigned any more.

A worker acquires each assigned partition in the store, which returns the counted offset. Until then the partition is
*unacquired*, and its records stay *uncounted*, because an earlier worker may have counted them. The worker keeps them,
and counts them after it has acquired the partition. An unacquired partition is *full* when it has MAX_UNCOUNTED
uncounted records. A crash leaves fewer records than that between the committed and the counted offset, so all later
records of the partition are new, and are counted immediately. An acquired partition is *catching up* while its records
may be below the counted offset: before each write, their offsets are compared with it.

While the store is unavailable, the metrics of each minute are kept in memory, and the write is retried after a delay.
An attempt may block the worker for the store's timeout. A write whose reply was lost is repeated unchanged: the store
detects by the counted offsets whether it has already done the write.
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
"""The delay before a retry after a failed write, at first and at most."""
MAX_WRITES_AT_ONCE = 100
MAX_UNCOUNTED = 200_000
"""How many uncounted records of a partition are kept, at 16 bytes for each transform that changes the batch.

A crash leaves fewer records than that between the committed and the counted offset.
"""


class MetricsWriter:
    """Writes the metrics of one worker. Used by the engine's thread.

    Args:
        store: The metric store.
        deployment_id: The deployment whose metrics are written.
        group: The consumer group of the partitions.
        writer_id: A name that is unique to this worker process.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: MetricStore,
        *,
        deployment_id: str,
        group: str,
        writer_id: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._key = (deployment_id, group, writer_id)
        self._clock = clock
        self._pending: deque[tuple[int, PendingMetrics]] = deque()
        """By minute, in order: the metrics that are not written yet."""
        self._unanswered: MetricsDelta | None = None
        """The last write, until the store has replied."""
        self._unacquired: set[int] = set()
        self._catching_up: set[int] = set()
        self._counted_offsets: Positions = {}
        """By assigned partition: all records before this offset are counted.

        Either the store has returned the offset, or this worker has counted the records before a rewind.
        """
        self._own_offsets: Positions = {}
        """By partition: the position up to which this worker has counted records.

        For a full partition, it is the position up to which this worker keeps uncounted records.
        """
        self._uncounted_records = Counter[int]()
        """By unacquired partition: how many of its records are uncounted."""
        self._retry_at = float("-inf")
        self._retry_delay_s = MIN_RETRY_S

    def are_all_new(self, partitions: Iterable[int]) -> bool:
        """Return whether all records that are read now from these partitions are new.

        A record is new when no worker has counted it.
        """
        return self._unacquired.isdisjoint(partitions) and self._catching_up.isdisjoint(partitions)

    def on_assigned(self, partitions: Iterable[int]) -> None:
        """Take over the counting of these partitions."""
        assigned = set(partitions)
        self._counted_offsets.update({p: self._own_offsets.get(p, 0) for p in assigned})
        self._unacquired |= assigned
        self.flush()

    def on_rewind(self, positions: Positions) -> None:
        """Record that records are read again from these positions on."""
        full = self._full_partitions()  # their uncounted records stay, and are skipped when they are read again
        positions = {p: position for p, position in positions.items() if p not in full}
        self._drop_uncounted(positions)
        self._counted_offsets.update(
            {p: max(self._counted_offsets.get(p, 0), self._own_offsets.get(p, 0)) for p in positions}
        )
        self._catching_up |= {p for p, position in positions.items() if position < self._counted_offsets[p]}

    def _drop_uncounted(self, positions: Positions) -> None:
        self._uncounted_records.clear()
        for _, metrics in self._pending:
            metrics.drop_uncounted(positions)
            self._add_uncounted_records(metrics)

    def remove_partitions(self, partitions: Iterable[int]) -> None:
        """Drop the uncounted records of partitions that were revoked or lost.

        The counts of committed records stay.
        """
        removed = set(partitions)
        for partition in removed & self._full_partitions():
            self._own_offsets.pop(partition, None)
        self._drop_uncounted(dict.fromkeys(removed, 0))
        self._unacquired -= removed
        self._catching_up -= removed

    def add(self, minute: int, metrics: PendingMetrics) -> None:
        """Add the metrics of acknowledged records whose positions are not committed yet."""
        self._extend_own_offsets(metrics.end_offsets)
        self._count_countable(metrics)
        if self._pending and self._pending[-1][0] == minute:
            self._pending[-1][1].add(metrics)
        else:
            self._pending.append((minute, metrics))

    def _extend_own_offsets(self, end_offsets: Positions) -> None:
        self._own_offsets |= {p: max(end, self._own_offsets.get(p, 0)) for p, end in end_offsets.items()}

    def _count_countable(self, metrics: PendingMetrics) -> None:
        """Count the records that are countable now.

        These are the records of acquired partitions, and of full ones, whose later records are all new. The records of
        the other unacquired partitions stay uncounted.
        """
        full = self._full_partitions()
        waiting = self._unacquired - full
        countable = PendingMetrics(
            uncounted=[batch.filter(lambda p, _: p not in waiting) for batch in metrics.uncounted]
        )
        waiting_batches = [batch.filter(lambda p, _: p in waiting) for batch in metrics.uncounted]
        metrics.uncounted = [batch for batch in waiting_batches if batch.record_count]
        self._add_uncounted_records(metrics)
        self._count_uncounted(countable, self._counted_offsets | {p: self._own_offsets[p] for p in full})
        metrics.add(countable)

    def _count_uncounted(self, metrics: PendingMetrics, counted_offsets: Positions) -> None:
        """Count the uncounted records that are not below the counted offsets."""
        batch_ends = metrics.count_uncounted(counted_offsets)
        self._extend_own_offsets(metrics.end_offsets)
        self._catching_up -= {p for p, end in batch_ends.items() if end >= self._counted_offsets.get(p, 0)}

    def _add_uncounted_records(self, metrics: PendingMetrics) -> None:
        """Add uncounted records to the number of each partition.

        When a partition becomes full, its own offset moves past its uncounted records: they are kept across a rewind,
        and are skipped when they are read again.
        """
        for batch in metrics.uncounted:
            self._uncounted_records.update(count_values(batch.read.partitions))
            full = self._full_partitions()
            self._extend_own_offsets({p: end for p, end in batch.end_offsets().items() if p in full})

    def _full_partitions(self) -> set[int]:
        return {p for p, records in self._uncounted_records.items() if records >= MAX_UNCOUNTED}

    def flush(self, *, ignore_retry_delay: bool = False) -> None:
        """Write the pending metrics.

        After a failure, does nothing until the retry delay is over, unless `ignore_retry_delay` is set.
        """
        if not ignore_retry_delay and self._clock() < self._retry_at:
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
        """Acquire the unacquired partitions in the store, and count their uncounted records."""
        if self._unacquired:
            stored = self._store.acquire_partitions(*self._key, sorted(self._unacquired))
            self._counted_offsets.update({p: max(offset, self._counted_offsets[p]) for p, offset in stored.items()})
            self._catching_up |= {p for p in self._unacquired if self._counted_offsets[p]}
            self._unacquired.clear()
        for _, metrics in self._pending:
            if metrics.uncounted:
                self._count_uncounted(metrics, self._counted_offsets)
        full = self._full_partitions()
        self._counted_offsets.update({p: max(self._counted_offsets[p], self._own_offsets[p]) for p in full})
        self._catching_up |= full
        self._uncounted_records.clear()

    def _write(self) -> bool:
        """Write the metrics of one minute. Return False when none are left."""
        if self._unanswered is None:
            if not self._pending:
                return False
            minute, metrics = self._pending.popleft()
            self._unanswered = metrics.to_delta(minute)
        fenced = self._store.write(*self._key, self._unanswered)
        if fenced:
            log.warning("metrics were rejected: another worker has these partitions", partitions=sorted(fenced))
            for partition in fenced:
                self._own_offsets.pop(partition, None)
        self._unanswered = None
        return True
