"""Writes a worker's metrics to the metric store, which counts each source record once.

Counts are written before the positions of their records are committed, and with at-least-once delivery not before the
sinks have acknowledged the records. A write adds the counts and, in the same atomic step, stores for each partition the
counted offset: the position up to which records are counted. A worker that is killed between the write and the commit
leaves counted offsets above the committed positions. The next worker of the partition reads these records again, but
does not count them again. The store rejects the counts of a partition from a worker to which the partition is not
assigned any more.

An assigned partition is in one of these states:

1. *Unacquired*: this worker has not acquired the partition in the store, so the store has not returned the counted
   offset. An earlier worker may have counted the records that are read, so they are kept, and none is counted.
2. *Full*: the partition is unacquired, and MAX_KEPT_RECORDS of its records are kept. No earlier worker
   can have counted as many as MAX_KEPT_RECORDS records beyond the committed position. So all records after the kept
   ones are new, and are counted at once.
3. *Catching up*: the partition is acquired, and records that are read may be below the counted offset. Each record's
   offset is compared with the counted offset. The kept records are counted in this way, too.
4. *Up to date*: no record that is read is below the counted offset, and all are counted at once.

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
MAX_KEPT_RECORDS = 200_000
"""How many records of an unacquired partition are kept before it is full.

Each takes 16 bytes for itself, and 16 for each transform that changes the batch. A crash leaves fewer records than this
between the committed and the counted offset.
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
        """By partition: all records before this offset are counted.

        The offset is the larger of two: the one in the store, and the one that `_seen_up_to` had when the partition was
        last assigned, acquired or read again. Partitions that were removed keep an entry.
        """
        self._seen_up_to: Positions = {}
        """By partition: the position up to which this worker has counted records.

        For a full partition, it is the position up to which this worker has counted or keeps records.
        """
        self._kept_records = Counter[int]()
        """By unacquired partition: how many of its records are kept."""
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
        self._counted_offsets.update({p: self._seen_up_to.get(p, 0) for p in assigned})
        self._unacquired |= assigned
        self.flush()

    def on_reread(self, positions: Positions) -> None:
        """Record that records are read again from these positions on."""
        full = self._full_partitions()  # their kept records stay, and are skipped when they are read again
        positions = {p: position for p, position in positions.items() if p not in full}
        self._drop_kept(positions)
        self._counted_offsets.update(
            {p: max(self._counted_offsets.get(p, 0), self._seen_up_to.get(p, 0)) for p in positions}
        )
        self._catching_up |= {p for p, position in positions.items() if position < self._counted_offsets[p]}

    def _drop_kept(self, positions: Positions) -> None:
        self._kept_records.clear()
        for _, metrics in self._pending:
            metrics.drop_kept(positions)
            self._add_kept_records(metrics)

    def remove_partitions(self, partitions: Iterable[int]) -> None:
        """Drop the kept records of partitions that were revoked or lost.

        The counts of committed records stay.
        """
        removed = set(partitions)
        for partition in removed & self._full_partitions():
            self._seen_up_to.pop(partition, None)
        self._drop_kept(dict.fromkeys(removed, 0))
        self._unacquired -= removed
        self._catching_up -= removed

    def add(self, minute: int, metrics: PendingMetrics) -> None:
        """Add the metrics of produced records, before the positions of their records are committed."""
        self._extend_seen_up_to(metrics.end_offsets)
        self._count_now(metrics)
        if self._pending and self._pending[-1][0] == minute:
            self._pending[-1][1].add(metrics)
        else:
            self._pending.append((minute, metrics))

    def _extend_seen_up_to(self, end_offsets: Positions) -> None:
        self._seen_up_to |= {p: max(end, self._seen_up_to.get(p, 0)) for p, end in end_offsets.items()}

    def _count_now(self, metrics: PendingMetrics) -> None:
        """Count the new records of acquired and of full partitions.

        The records of the other unacquired partitions are kept.
        """
        full = self._full_partitions()
        waiting = self._unacquired - full
        countable = PendingMetrics(
            kept_batches=[batch.filter(lambda p, _: p not in waiting) for batch in metrics.kept_batches]
        )
        waiting_batches = [batch.filter(lambda p, _: p in waiting) for batch in metrics.kept_batches]
        metrics.kept_batches = [batch for batch in waiting_batches if batch.record_count]
        self._add_kept_records(metrics)
        self._count_from(countable, self._counted_offsets | {p: self._seen_up_to[p] for p in full})
        metrics.add(countable)

    def _count_from(self, metrics: PendingMetrics, counted_offsets: Positions) -> None:
        """Count the kept records in `metrics` that are not below the counted offsets."""
        batch_ends = metrics.count_kept_from(counted_offsets)
        self._extend_seen_up_to(metrics.end_offsets)
        self._catching_up -= {p for p, end in batch_ends.items() if end >= self._counted_offsets.get(p, 0)}

    def _add_kept_records(self, metrics: PendingMetrics) -> None:
        """Add the kept records in `metrics` to the number of each partition.

        When a partition becomes full, `_seen_up_to` moves past its kept records: they are still kept when the worker
        reads its records again, and are skipped then.
        """
        for batch in metrics.kept_batches:
            self._kept_records.update(count_values(batch.read.partitions))
            full = self._full_partitions()
            self._extend_seen_up_to({p: end for p, end in batch.end_offsets().items() if p in full})

    def _full_partitions(self) -> set[int]:
        return {p for p, records in self._kept_records.items() if records >= MAX_KEPT_RECORDS}

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
        """Acquire the unacquired partitions in the store, and count their kept records."""
        if self._unacquired:
            stored = self._store.acquire_partitions(*self._key, sorted(self._unacquired))
            self._counted_offsets.update({p: max(offset, self._counted_offsets[p]) for p, offset in stored.items()})
            self._catching_up |= {p for p in self._unacquired if self._counted_offsets[p]}
            self._unacquired.clear()
        for _, metrics in self._pending:
            if metrics.kept_batches:
                self._count_from(metrics, self._counted_offsets)
        full = self._full_partitions()
        self._counted_offsets.update({p: max(self._counted_offsets[p], self._seen_up_to[p]) for p in full})
        self._catching_up |= full
        self._kept_records.clear()

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
                self._seen_up_to.pop(partition, None)
        self._unanswered = None
        return True
