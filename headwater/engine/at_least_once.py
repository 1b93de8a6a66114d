"""At-least-once delivery, which sends records without a transaction.

Positions are committed after the acknowledgements of their records. All sinks of a worker share one producer. After
a failure of the producer, the worker reads the records since the last commit again.
"""

from collections.abc import Callable, Collection, Sequence

from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.delivery import Backpressure, produce_batch
from headwater.engine.in_flight_batch import InFlightBatch
from headwater.engine.rejected_records import RejectedRecords
from headwater.model.record import Failure, SourceIds, position_ids
from headwater.sinks.base import Producer, Sink
from headwater.sources.base import Positions


class AtLeastOnce:
    """Implements engine.delivery.Delivery.

    Args:
        sinks: All sinks of the pipeline.
        dead_letters: The writer of dead letters.
        producer_factory: Creates a producer; its argument is `one_record_per_batch`, see IdempotentKafkaProducer.
        source_ids: Returns the ids of source records, see model.record.SourceIds.
    """

    commit_interval_s = 1.0

    def __init__(
        self,
        sinks: Sequence[Sink],
        dead_letters: DeadLetterWriter,
        producer_factory: Callable[[bool], Producer],
        source_ids: SourceIds = position_ids,
    ) -> None:
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._create_producer = producer_factory
        self._rejected = RejectedRecords(source_ids)
        self._one_record_per_batch = False
        self._producer = producer_factory(False)

    def connect(self, timeout_s: float) -> None:
        self._producer.connect(timeout_s)

    def start(self, timeout_s: float) -> None:
        """Do nothing: records of a previous worker that arrive late are repeats."""

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        return produce_batch(in_flight, self._sinks, self._dead_letters, self._producer, self._rejected)

    def backpressure(self) -> Backpressure:
        return Backpressure(is_queue_full=self._producer.is_queue_full())

    def outstanding(self) -> int:
        return self._producer.outstanding()

    def take_reread_reasons(self) -> list[str]:
        return self._rejected.add(self._producer.take_failures())

    def flush(self, timeout_s: float) -> int:
        return self._producer.flush(timeout_s)

    def commit(self, positions: Positions) -> None:
        """Forget the rejected records whose batches were produced again since the last commit.

        The source records of these batches are before these positions, which the worker commits to the source. If no
        suspect is left, a producer that sends one record per batch is replaced by a normal one.
        """
        if positions:
            self._rejected.on_committed()
        if self._one_record_per_batch and not self._rejected.need_one_record_per_batch:
            self._replace_producer()

    def _replace_producer(self) -> None:
        self._producer.close()
        self._one_record_per_batch = self._rejected.need_one_record_per_batch
        self._producer = self._create_producer(self._one_record_per_batch)

    def recover(self) -> bool:
        self._replace_producer()
        return False

    def remove_partitions(self, partitions: Collection[int]) -> None:
        """Leave queued records in the producer.

        The next worker of the partitions produces these records again.
        """
        self._rejected.remove_partitions(partitions)

    def close(self) -> None:
        self._producer.close()
