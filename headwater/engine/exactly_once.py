"""Exactly-once delivery: a Kafka transaction contains outputs, dead letters and positions.

Records wait in memory until a commit is due. An open transaction blocks consumers that read committed records, so a
transaction begins only when all its records are in memory. A separate thread writes and commits the transaction, while
the worker reads and transforms the next batches.
"""

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NamedTuple

from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.delivery import Backpressure, PendingCommit, produce_batch
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.rejected_records import RejectedRecords
from headwater.errors import BrokerUnavailable, TransactionFailed
from headwater.model.record import Failure, SourceIds, position_ids
from headwater.sinks.base import Sink, TransactionalProducer
from headwater.sources.base import Positions

START_TIMEOUT_S = 5.0
HANGS_AFTER_S = 15
"""A watched call of librdkafka counts as hung after this many seconds.

The timeouts of the calls in one watched block add up to 13 s at most. librdkafka exceeds its timeouts while the group
has no coordinator, and sometimes a call never returns (librdkafka issues 5456 and 5511).
"""
MAX_PENDING_BYTES = 64 << 20
"""A commit is due when the values that wait for it take more than this, to bound the worker's memory."""


class TransactionSizer:
    """Adapts the number of records, so that a transaction lasts about TARGET_S at most.

    Attributes:
        limit: How many records the next transaction may contain.
    """

    TARGET_S = 1.0
    MAX_RECORDS = 40_000

    def __init__(self) -> None:
        self.limit = self.MAX_RECORDS

    def update(self, count: int, took_s: float) -> None:
        """Adapt the limit after a transaction of `count` records was committed in `took_s` seconds."""
        if took_s > self.TARGET_S:
            self.limit = max(1, min(self.limit, int(count * self.TARGET_S / took_s)))
        elif count >= self.limit:
            self.limit = min(self.MAX_RECORDS, self.limit * 2)

    def reduce(self, count: int) -> None:
        """Reduce the limit after a failed transaction of `count` records, which may be too many."""
        self.limit = max(1, min(self.limit // 2, count // 4))


class _RunningCommit(NamedTuple):
    """Implements PendingCommit: a transaction that the commit thread writes and commits.

    Attributes:
        records: How many records the transaction contains.
        future: The commit. Its result is the duration in seconds.
        finish: Implements `result`.
    """

    records: int
    future: Future[float]
    finish: Callable[["_RunningCommit"], bool]

    def done(self) -> bool:
        return self.future.done()

    def result(self) -> bool:
        return self.finish(self)


class ExactlyOnce:
    """Implements engine.delivery.Delivery.

    Args:
        sinks: All sinks of the pipeline.
        dead_letters: The writer of dead letters.
        producer_factory: As in AtLeastOnce.
        group_metadata: `Source.group_metadata`, which the commit thread calls just before it sends positions.
        source_ids: As in AtLeastOnce.
        watching: Returns a context manager for calls of librdkafka that may never return; see Watchdog.
        clock: Monotonic seconds.
        executor: Commits transactions, one at a time.
    """

    commit_interval_s = 0.2

    def __init__(
        self,
        sinks: Sequence[Sink],
        dead_letters: DeadLetterWriter,
        producer_factory: Callable[[bool], TransactionalProducer],
        *,
        group_metadata: Callable[[], object],
        source_ids: SourceIds = position_ids,
        watching: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
        executor: Executor | None = None,
    ) -> None:
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._create_producer = producer_factory
        self._group_metadata = group_metadata
        self._watching = watching
        self._clock = clock
        self._rejected = RejectedRecords(source_ids)
        self._reread_reasons: list[str] = []
        self._one_record_per_batch = False
        self._producer = producer_factory(False)
        self._sizer = TransactionSizer()
        self._executor = executor or ThreadPoolExecutor(1, "commit")
        self._running: _RunningCommit | None = None

    def connect(self, timeout_s: float) -> None:
        self._producer.connect(timeout_s)

    def start(self, timeout_s: float) -> None:
        """Fence the previous worker, and end its open transaction."""
        try:
            self._producer.init_transactions(timeout_s)
        except BrokerUnavailable:
            self._replace_producer()
            raise

    def _replace_producer(self) -> None:
        self._producer.close()
        self._one_record_per_batch = self._rejected.need_one_record_per_batch
        self._producer = self._create_producer(self._one_record_per_batch)

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        return produce_batch(in_flight, self._sinks, self._dead_letters, self._producer, self._rejected)

    def backpressure(self) -> Backpressure:
        """Bound the records and bytes of the next transaction.

        While a commit is running, no record waits for the next transaction yet, so the whole limit is free. Only the
        commit thread uses the producer then.
        """
        if self._running is not None:
            return Backpressure(self._sizer.limit)
        is_memory_full = self._producer.pending_bytes() > MAX_PENDING_BYTES
        return Backpressure(0 if is_memory_full else max(0, self._sizer.limit - self._producer.pending_records()))

    def outstanding(self) -> int:
        return self._producer.pending_records() if self._running is None else self._running.records

    def take_reread_reasons(self) -> list[str]:
        reasons, self._reread_reasons = self._reread_reasons, []
        return reasons

    def flush(self, timeout_s: float) -> int:  # noqa: ARG002 - the commit is the acknowledgement
        return 0

    def commit(self, positions: Positions) -> PendingCommit | None:
        if not positions:
            return None
        records = self._producer.pending_records()
        future = self._executor.submit(self._commit_in_thread, positions)
        self._running = _RunningCommit(records, future, self._finish_commit)
        return self._running

    def _commit_in_thread(self, positions: Positions) -> float:
        since = self._clock()
        with self._watching():
            self._producer.commit(positions, self._group_metadata)
        return self._clock() - since

    def _finish_commit(self, commit: _RunningCommit) -> bool:
        """Wait for the end of a commit, and adapt to its outcome; see PendingCommit.result."""
        self._running = None
        try:
            took_s = commit.future.result()
        except TransactionFailed as error:
            self._sizer.reduce(commit.records)
            self._rejected.add(self._producer.take_failures())
            self._reread_reasons.append(error.detail)
            return False
        self._sizer.update(commit.records, took_s)
        self._rejected.on_committed()
        if self._one_record_per_batch and not self._rejected.need_one_record_per_batch:
            self._replace_producer_after_commit()
        return True

    def _replace_producer_after_commit(self) -> None:
        """Replace the producer, and ignore an error of `init_transactions`.

        The commit has succeeded already, so no record is lost. After an error, the next transaction fails, and the
        worker recovers.
        """
        with self._watching(), suppress(BrokerUnavailable):
            self._replace_producer()
            self.start(START_TIMEOUT_S)

    def recover(self) -> bool:
        """See Delivery. The new producer completes or aborts the last transaction."""
        with self._watching():
            self._replace_producer()
            self.start(START_TIMEOUT_S)
        return True

    def remove_partitions(self, partitions: Collection[int]) -> None:
        self._producer.drop_source_partitions(partitions)
        self._rejected.remove_partitions(partitions)

    def close(self) -> None:
        if self._running is not None:
            with suppress(TransactionFailed):
                self._running.future.result()
        self._executor.shutdown()
        with self._watching():
            self._producer.close()
