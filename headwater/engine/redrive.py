"""Delivers the outputs of redriven dead letters, and stores the outcome of each letter."""

import time
from collections.abc import Callable, Collection
from typing import Protocol

from headwater.engine.delivery import Backpressure, Delivery, PendingCommit
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.model.dead_letter import LetterId, RedriveOutcome
from headwater.model.metric import MetricsDelta, PartitionCounts
from headwater.model.record import Failure
from headwater.model.redrive import LetterOutcomes, RedriveSpec
from headwater.sources.base import Positions
from headwater.stores.protocols.metrics import MetricStore
from headwater.stores.protocols.redrives import RedriveOutcomeStore


class RedriveSource(Protocol):
    """The part of DeadLetterSource that the delivery of a redrive uses.

    Attributes:
        is_throttled: Whether to read slowly, because the pipeline lags.
    """

    is_throttled: bool

    def commit(self, positions: Positions, *, wait: bool) -> None:
        """See sources.base.Source."""

    def repeats(self, positions: Positions) -> dict[LetterId, LetterId]:
        """Return the repeats before these positions, each with the letter whose outcome it gets.

        A repeat is a letter with the same source record as an earlier letter of the same partition.
        """

    def forget(self, positions: Positions) -> None:
        """Forget the letters before these positions, whose commit has begun.

        If the commit fails, the source repeats the commit, or the letters are read again.
        """


class RedriveDelivery:
    """Implements engine.delivery.Delivery for a redrive.

    It stores the outcomes of letters before it commits their positions. When the worker is killed in between, the next
    worker reads the letters again. It does not process a letter again whose outputs are acknowledged. If the
    transaction of the outputs may have been aborted, it processes the letter again, and the new outcome replaces the
    stored one.

    Args:
        inner: Delivers the outputs.
        source: The source of the letters.
        store: The outcomes of letters.
        deployment_id: The deployment.
        redrive: The redrive.
        in_transaction: Whether `inner` commits the outputs in a transaction, after the outcomes are stored.
        epoch_s: Returns the seconds since the epoch.
    """

    def __init__(
        self,
        inner: Delivery,
        source: RedriveSource,
        store: RedriveOutcomeStore,
        *,
        deployment_id: str,
        redrive: RedriveSpec,
        in_transaction: bool,
        epoch_s: Callable[[], float] = time.time,
    ) -> None:
        self.commit_interval_s = inner.commit_interval_s
        self._inner = inner
        self._source = source
        self._store = store
        self._deployment_id = deployment_id
        self._redrive = redrive
        self._in_transaction = in_transaction
        self._epoch_s = epoch_s
        self._outcomes: LetterOutcomes = {}
        """The outcomes that are not stored yet."""
        self._uncommitted: Positions = {}
        """Positions whose commit failed, because the outcomes could not be stored."""
        self.connect = inner.connect
        self.start = inner.start
        self.outstanding = inner.outstanding
        self.take_reread_reasons = inner.take_reread_reasons
        self.flush = inner.flush
        self.close = inner.close

    def backpressure(self) -> Backpressure:
        """See Delivery."""
        return self._inner.backpressure()

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        """See Delivery."""
        produced, failures = self._inner.deliver(in_flight)
        self._outcomes |= outcomes_of(in_flight)
        return produced, failures

    def commit(self, positions: Positions) -> PendingCommit | None:
        """See Delivery. Raises RedisUnavailable; the next call then stores the outcomes."""
        failed_before, self._uncommitted = self._uncommitted, self._uncommitted | positions
        if not self._uncommitted:
            return self._inner.commit({})
        outcomes = self._outcomes | self._outcomes_of_repeats()
        # `record` also returns whether the redrive is throttled, because its pipeline lags.
        self._source.is_throttled = self._store.record(
            self._deployment_id,
            self._redrive.number,
            outcomes,
            int(self._epoch_s()),
            in_transaction=self._in_transaction,
        )
        self._outcomes.clear()
        to_commit, self._uncommitted = self._uncommitted, {}
        pending = self._inner.commit(to_commit)
        if pending is None and failed_before:
            self._source.commit(to_commit, wait=False)
        self._source.forget(to_commit)
        return pending

    def _outcomes_of_repeats(self) -> LetterOutcomes:
        """Return the outcome of each repeat: the outcome of the letter with the same source record."""
        repeats = self._source.repeats(self._uncommitted)
        earlier = {first for first in repeats.values() if first not in self._outcomes}
        stored = self._store.outcomes(self._deployment_id, earlier) if earlier else {}
        known = {letter: each.outcome for letter, each in stored.items()} | self._outcomes
        return {letter: known[first] for letter, first in repeats.items() if first in known}

    def recover(self) -> bool:
        """See Delivery.

        Without transactions, the outputs of a letter are acknowledged before its outcome is stored. A letter whose
        outcome could not be stored is therefore not read again; the next commit stores its outcome. With transactions,
        all letters since the committed positions are read again.
        """
        reads_committed_positions = self._inner.recover()
        if reads_committed_positions:
            self._uncommitted.clear()
        self._outcomes = {
            letter: outcome
            for letter, outcome in self._outcomes.items()
            if letter.offset < self._uncommitted.get(letter.partition, 0)
        }
        return reads_committed_positions

    def remove_partitions(self, partitions: Collection[int]) -> None:
        """See Delivery."""
        self._outcomes = {letter: each for letter, each in self._outcomes.items() if letter.partition not in partitions}
        self._uncommitted = {p: position for p, position in self._uncommitted.items() if p not in partitions}
        self._inner.remove_partitions(partitions)


def outcomes_of(in_flight: InFlightBatch) -> LetterOutcomes:
    """Return the outcome of each letter in a delivered batch.

    A letter has failed when any of its outputs has failed: there is a new letter then.
    """
    failed = {(each.partition, each.offset) for each in in_flight.failed_records}
    delivered = set(zip(in_flight.output.partitions, in_flight.output.offsets, strict=True))

    def outcome(position: tuple[int, int]) -> RedriveOutcome:
        if position in failed:
            return "failed"
        return "delivered" if position in delivered else "dropped"

    positions = zip(in_flight.input.partitions, in_flight.input.offsets, strict=True)
    return {LetterId(*position): outcome(position) for position in positions}


class DeadLetterTotalsStore:
    """Implements MetricStore for a redrive, over the metric store of the pipeline.

    It writes only how many new dead letters there are. The letters that a redrive reads are no records of the stream,
    so they are not counted as received or sent by the pipeline.
    """

    def __init__(self, store: MetricStore) -> None:
        self.acquire_partitions = store.acquire_partitions
        self.restart_counting = store.restart_counting
        self.drop_group = store.drop_group
        self.read = store.read
        self.recent = store.recent
        self.letter_totals = store.letter_totals
        self.last_progress = store.last_progress
        self.drop = store.drop
        self._store = store

    def write(self, deployment_id: str, group: str, writer: str, delta: MetricsDelta) -> frozenset[int]:
        """See MetricStore."""
        partitions = {p: PartitionCounts(each.end, {}, {}, each.letter_totals) for p, each in delta.partitions.items()}
        return self._store.write(deployment_id, group, writer, MetricsDelta(delta.minute, partitions, {}))
