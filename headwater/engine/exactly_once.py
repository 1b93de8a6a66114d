"""Exactly-once delivery: results, dead letters and positions of some batches in one transaction of Kafka.

Batches wait in memory until a commit is due: an open transaction holds up the readers of all that is written after it,
so none is opened before everything that goes into it is there. It is committed by a thread of its own: the next batches
are read and transformed meanwhile, and the transaction waits for none of them.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NamedTuple

from headwater.engine.chain import InFlightBatch
from headwater.engine.delivery import DeadLetters, write
from headwater.engine.refusals import Refusals
from headwater.errors import BrokerUnavailable, DeliveryFailed
from headwater.model.record import Failure, SourceNames, position_names
from headwater.sinks.base import Sink, TransactionalProducer
from headwater.sources.base import Positions, Source

BEGIN_S = 5.0
HANGS_AFTER_S = 15
"""What is watched has limits that add up to half of this. librdkafka hangs in spite of them while the group has no
coordinator, or for good (librdkafka issues 5456 and 5511).
"""
MAX_HELD_BYTES = 64 << 20
"""With more values waiting for a commit, it is due: a worker's memory is limited."""


class TransactionSize:
    """How many records a transaction may hold, so that it lasts about TARGET_S at most."""

    TARGET_S = 1.0
    MOST = 40_000

    def __init__(self) -> None:
        self.limit = self.MOST

    def learn(self, count: int, took_s: float) -> None:
        """Note a transaction that was committed."""
        if took_s > self.TARGET_S:
            self.limit = max(1, min(self.limit, int(count * self.TARGET_S / took_s)))
        elif count >= self.limit:
            self.limit = min(self.MOST, self.limit * 2)

    def failed(self, count: int) -> None:
        """Note one that was not: perhaps it was too large to end in time."""
        self.limit = max(1, min(self.limit, count // 4))


class _Transaction(NamedTuple):
    """One that is being committed. took_s: how long it took, once it has ended."""

    records: int
    took_s: Future[float]


class ExactlyOnce:
    """Implements engine.delivery.Delivery. watching: around the calls of Kafka's client that may never return.

    producer_factory, names: as AtLeastOnce takes them. executor: commits, one transaction at a time.
    """

    checkpoint_s = 0.2

    def __init__(
        self,
        sinks: Sequence[Sink],
        dead_letters: DeadLetters,
        producer_factory: Callable[[bool], TransactionalProducer],
        names: SourceNames = position_names,
        watching: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
        executor: Executor | None = None,
    ) -> None:
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._make = producer_factory
        self._watching = watching
        self._clock = clock
        self._refusals = Refusals(names)
        self._is_single = False
        self._producer = producer_factory(False)
        self._size = TransactionSize()
        self._held_bytes = 0
        self._executor = executor or ThreadPoolExecutor(1, "commit")
        self._transaction: _Transaction | None = None

    def connect(self, timeout_s: float) -> None:
        self._producer.connect(timeout_s)

    def begin(self, timeout_s: float) -> None:
        try:
            self._producer.begin(timeout_s)
        except BrokerUnavailable:
            self._renew()
            raise

    def _renew(self) -> None:
        self._producer.close()
        self._is_single = self._refusals.is_single
        self._producer = self._make(self._is_single)
        self._held_bytes = 0

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        sent, refused = write(in_flight, self._sinks, self._dead_letters, self._producer, self._refusals)
        self._held_bytes += in_flight.output_bytes()
        return sent, refused

    def push(self) -> None:
        """Nothing to do: records wait for their transaction."""

    def room(self) -> int:
        held = self._producer.held() if self._transaction is None else 0
        return 0 if self._held_bytes > MAX_HELD_BYTES else max(0, self._size.limit - held)

    def saturated(self) -> bool:
        return False

    def unacknowledged(self, timeout_s: float) -> int:  # noqa: ARG002 - the commit is the acknowledgement
        return 0

    def outstanding(self) -> int:
        return self._producer.held() if self._transaction is None else self._transaction.records

    def failures(self) -> list[str]:
        return []

    def commit(self, source: Source, positions: Positions, *, wait: bool) -> None:  # noqa: ARG002 - `end_commit` waits
        if not positions:
            return
        count, self._held_bytes = self._producer.held(), 0
        took_s = self._executor.submit(self._transact, positions, source.membership)
        self._transaction = _Transaction(count, took_s)

    def _transact(self, positions: Positions, membership: Callable[[], object]) -> float:
        since = self._clock()
        with self._watching():
            self._producer.commit(positions, membership)
        return self._clock() - since

    def end_commit(self, *, wait: bool) -> bool:
        transaction = self._transaction
        if transaction is None:
            return True
        if not (wait or transaction.took_s.done()):
            return False
        self._transaction = None
        try:
            took_s = transaction.took_s.result()
        except DeliveryFailed:
            self._size.failed(transaction.records)
            self._refusals.note(self._producer.failures())
            raise
        self._size.learn(transaction.records, took_s)
        self._refusals.committed()
        if self._is_single and not self._refusals.is_single:
            self._renew_and_begin()
        return True

    def _renew_and_begin(self) -> None:
        """What was committed counts though the new producer can't begin: then its first transaction fails."""
        with self._watching(), suppress(BrokerUnavailable):
            self._renew()
            self.begin(BEGIN_S)

    def recover(self, source: Source) -> Positions:
        with self._watching():
            self._renew()
            self.begin(BEGIN_S)
        return source.committed()

    def forget(self, partitions: Iterable[int]) -> None:
        self._producer.forget(partitions)
        self._refusals.clear()

    def close(self) -> None:
        if self._transaction is not None:
            with suppress(DeliveryFailed):
                self._transaction.took_s.result()
        self._executor.shutdown()
        with self._watching():
            self._producer.close()
