"""The protocol of deliveries, which write batches to sinks and commit their positions.

Records that fail are written to the dead-letter topic. Data flows one way: from the source through the transforms to
the delivery. A delivery does not know the source, except for the delivery of a redrive. Whoever builds a delivery gives
it the functions of the source that it needs: `source_ids`, and `group_metadata` for transactions that commit positions.
Implementations: at_least_once.py, exactly_once.py, redrive.py, which wraps one of these two, and prices/worker.py,
which delivers to the price store.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.rejected_records import RejectedRecords
from headwater.model.record import Failure, RecordBatch, RowIndexes
from headwater.sinks.base import OutputWriter, Sink
from headwater.sources.base import Positions

UNLIMITED = 1 << 30


class Backpressure(NamedTuple):
    """How much a delivery can take now.

    Attributes:
        capacity: How many records may be read before the next commit. At 0 a commit is due.
        is_queue_full: Whether the producer's queue is full. While it is, call `deliver` only if the worker can't wait,
            because partitions are revoked or the worker ends. The producer then keeps the records in memory until its
            queue has space.
    """

    capacity: int = UNLIMITED
    is_queue_full: bool = False


class PendingCommit(Protocol):
    """A commit that runs in another thread. Until `result` has returned, deliver no batch."""

    def done(self) -> bool:
        """Return whether `result` will not wait."""

    def result(self) -> bool:
        """Wait for the end of the commit, and process its outcome. Call it once.

        Returns whether the commit has succeeded. Otherwise it is unknown whether the records and positions are stored,
        and `Delivery.take_reread_reasons` returns the reason.
        """


class Delivery(Protocol):
    """Produces batches in the order of reading, and commits positions after their records.

    To produce a record is to hand it to a producer, which queues it. When `flush` returns 0 and `take_reread_reasons`
    returns nothing, the worker calls `commit` with the positions after the produced records. With at-least-once
    delivery, Kafka has acknowledged these records by then. With exactly-once delivery, `commit` writes them.

    Attributes:
        commit_interval_s: How many seconds after a commit the next commit is due.
    """

    commit_interval_s: float

    def connect(self, timeout_s: float) -> None:
        """Return when Kafka answers and has all topics. Raises BrokerUnavailable.

        Called first, while the previous worker of this slot may still run: a worker that can't connect does not
        replace it.
        """

    def start(self, timeout_s: float) -> None:
        """Prepare delivery.

        Called once, after the previous worker of this slot has ended, before any record is read. Raises
        BrokerUnavailable: call it again.
        """

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        """Produce the outputs and dead letters of a finished batch. Never waits.

        Returns how many outputs were produced, counted once per sink, and a failure for each output that was not.
        """

    def backpressure(self) -> Backpressure:
        """Return how much this delivery can take now. Never waits."""

    def outstanding(self) -> int:
        """Return how many produced records are not acknowledged or not committed yet. Never waits."""

    def take_reread_reasons(self) -> list[str]:
        """Return and clear the reasons to read the records since the last commit again.

        Each reason is a sentence, for example that Kafka rejected a record, or that a transaction has failed. When
        there is a reason, neither deliver nor commit, but call `recover`. Never waits.
        """

    def flush(self, timeout_s: float) -> int:
        """Send lingering records now, and wait for acknowledgements.

        With 0, returns within a few milliseconds. Returns how many records must still be acknowledged before `commit`
        may be called.
        """

    def commit(self, positions: Positions) -> PendingCommit | None:
        """Commit the produced records.

        With no positions, retry what could not be committed before. Returns the running commit of the records and
        positions, or None when the records are committed without the positions: the worker then commits the positions
        to the source.

        Raises RedisUnavailable when the records are not committed yet.
        """

    def recover(self) -> bool:
        """Discard all uncommitted records, and use a new producer.

        Returns whether a commit without a known outcome may have changed the committed positions: the worker then
        reads the positions from the source. Raises BrokerUnavailable: call it again.
        """

    def remove_partitions(self, partitions: Collection[int]) -> None:
        """Remove partitions that were revoked or lost.

        Drops their uncommitted records, as far as that is possible.
        """

    def close(self) -> None:
        """Close the producer. The next worker reads the uncommitted records again."""


def produce_batch(
    in_flight: InFlightBatch,
    sinks: Sequence[Sink],
    dead_letters: DeadLetterWriter,
    producer: OutputWriter,
    rejected: RejectedRecords,
) -> tuple[int, list[Failure]]:
    """Produce the output of a finished batch to every sink, and its dead letters.

    Args:
        in_flight: The batch.
        sinks: All sinks of the pipeline.
        dead_letters: The writer of dead letters.
        producer: The producer of both.
        rejected: Records that Kafka is known to reject. They are not produced, and count as failures of the sink.

    Returns how many outputs were produced, counted once per sink, and a failure for each output that was not.
    """
    in_flight.exclude_dropped()
    failures: list[Failure] = []
    if in_flight.output:
        for sink in sinks:
            failures += _send(in_flight.output, sink, producer, rejected)
    in_flight.add_failures(failures)
    dead_letters.send(in_flight, producer, rejected)
    return len(in_flight.output) * len(sinks) - len(failures), failures


def _send(batch: RecordBatch, sink: Sink, producer: OutputWriter, rejected: RejectedRecords) -> list[Failure]:
    if not rejected:
        return sink.send(batch, producer)
    rejected.on_produced(batch, sink.topic)
    failures = rejected.failures_of(batch, sink)
    rejected_rows = {failure.row for failure in failures}
    rows = RowIndexes("i", [row for row in range(len(batch)) if row not in rejected_rows])
    return failures + [failure._replace(row=rows[failure.row]) for failure in sink.send(batch.take(rows), producer)]
