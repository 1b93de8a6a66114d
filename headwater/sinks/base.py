"""Protocols of sinks, and of the producers that all sinks of a worker share."""

from collections.abc import Callable, Collection, Mapping
from typing import Literal, NamedTuple, Protocol

from headwater.model.record import Failure, RecordBatch
from headwater.sinks.outputs import OutputBatch


class ProducerFailure(NamedTuple):
    """A produced record was not stored, or the producer's whole client has failed or stalled.

    After a failure, the records since the last commit may be lost, and the producer must be replaced.

    Attributes:
        reason: What happened, as a sentence for the user.
        topic: The topic of the record; empty for a failure of the whole client.
        output_id: The value of the record's OUTPUT_ID_HEADER.
        source_partition: The partition of the source record; None when it is not known.
        cause: "record" when Kafka rejects this record every time; "batch" when Kafka rejected the batch that contained
            the record, perhaps because of another record in it; "other" when no record is the cause, or
            the record has no output id.
    """

    reason: str
    topic: str = ""
    output_id: bytes = b""
    source_partition: int | None = None
    cause: Literal["record", "batch", "other"] = "other"


class OutputWriter(Protocol):
    """The producer that sinks write to. Both kinds of producers implement this protocol."""

    def produce(self, outputs: OutputBatch) -> None:
        """Queue records.

        Never waits, however many there are. For each record, `sinks.outputs.size_error` must return None.
        """


class Producer(OutputWriter, Protocol):
    """Sends records without a transaction.

    Implementations: sinks/idempotent_producer.py, and one in memory for tests.
    """

    def connect(self, timeout_s: float) -> None:
        """Return when the broker answers and has all topics. Raises BrokerUnavailable."""

    def append(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        """Queue one record with the current time and no headers.

        For callers that have no batches of records, such as a replay.
        """

    def is_queue_full(self) -> bool:
        """Return whether records wait for space in the client's queue.

        Then call `produce` only if the caller can't wait; see engine.delivery.Backpressure.
        """

    def outstanding(self) -> int:
        """Return how many records are not acknowledged. Never waits."""

    def flush(self, timeout_s: float) -> int:
        """Send lingering records now, and wait for acknowledgements.

        With 0, returns within a few milliseconds. Returns how many records are not acknowledged yet.
        """

    def take_failures(self) -> list[ProducerFailure]:
        """Return and clear the failures since the last call. Never waits."""

    def close(self) -> None:
        """Discard the queued records and close the client."""


class TransactionalProducer(OutputWriter, Protocol):
    """Keeps records until `commit` writes them with the source's positions.

    `commit` uses one transaction of Kafka.

    Implementations: sinks/transactional_producer.py, and one in memory for tests.
    """

    def connect(self, timeout_s: float) -> None:
        """Return when the broker answers and has all topics. Raises BrokerUnavailable."""

    def init_transactions(self, timeout_s: float) -> None:
        """End an open transaction with this transactional id, and fence its producer.

        Called once, before the first `commit`. Raises BrokerUnavailable; then use a new producer.
        """

    def pending_records(self) -> int:
        """Return how many records wait for `commit`."""

    def pending_bytes(self) -> int:
        """Return the size of the values that wait for `commit`, see `sinks.outputs.values_bytes`."""

    def drop_source_partitions(self, partitions: Collection[int]) -> None:
        """Drop pending records whose source records are from these partitions of the source topic.

        See `OutputBatch.without_source_partitions`.
        """

    def commit(self, positions: Mapping[int, int], group_metadata: Callable[[], object]) -> None:
        """Write all records and the positions, if any, in one transaction.

        Args:
            positions: The positions of the source.
            group_metadata: `Source.group_metadata`.

        Raises TransactionFailed when the transaction was not committed, or when that is unknown. Then use a new
        producer: its `init_transactions` completes or aborts the transaction. `take_failures` returns the records that
        were not stored.
        """

    def take_failures(self) -> list[ProducerFailure]:
        """Return and clear the failures since the last call. Never waits."""

    def close(self) -> None:
        """Drop the records, abort an open transaction, and close the client."""


class Sink(Protocol):
    """Writes the output of a pipeline to one topic. Used by the engine's thread."""

    @property
    def name(self) -> str:
        """The name of the sink in the configuration."""

    @property
    def topic(self) -> str:
        """The topic that the sink writes to."""

    def send(self, batch: RecordBatch, producer: OutputWriter) -> list[Failure]:
        """Produce a batch in order.

        Returns a failure for each record that can't be sent, for example because it is too large.
        """
