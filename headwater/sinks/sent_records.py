"""Remembers the output ids of unacknowledged records.

A failed delivery names only a number.
"""

from bisect import bisect
from operator import itemgetter
from typing import Final, Literal

from confluent_kafka import KafkaError

from headwater.brokers.producer import DeliveryFailure
from headwater.native.bytes_column import BytesColumn
from headwater.native.librdkafka import OutputIdColumn
from headwater.sinks.base import Rejection
from headwater.sinks.outputs import OutputBatch

_REJECTIONS: Final = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)
"""Errors for which the broker rejects a whole batch because of some of its records.

The broker names invalid records (KIP-467). librdkafka 2.5 to 2.16 gives their error to all records of the batch when it
names exactly one (`rd_kafka_dr_msgq0`).
"""

_Scope = Literal["record", "batch", "none"]


class SentRecords:
    """The records that were sent since the last `clear`.

    one_record_per_batch: whether each record is sent in its own batch, so that a batch error identifies it.
    """

    def __init__(self, *, one_record_per_batch: bool) -> None:
        self._one_record_per_batch = one_record_per_batch
        self._sent: list[tuple[int, str, BytesColumn | OutputIdColumn | None]] = []

    def add(self, first_record_id: int, outputs: OutputBatch) -> None:
        """Add sent records.

        Args:
            first_record_id: The number that the client has given to the first of them.
        """
        self._sent.append((first_record_id, outputs.topic, outputs.ids))

    def clear(self) -> None:
        """Forget all records, which are acknowledged."""
        self._sent.clear()

    def rejection(self, failure: DeliveryFailure) -> Rejection:
        """Return the rejection that a failed delivery means for its record."""
        first_record_id, topic, ids = self._sent[bisect(self._sent, failure.record_id, key=itemgetter(0)) - 1]
        row = failure.record_id - first_record_id
        output_id = ids.value(row) if isinstance(ids, OutputIdColumn) else (ids and ids[row]) or b""
        text = failure.text or KafkaError(failure.code).str()
        reason = f"Kafka rejected a record of {topic}: {text}."
        return Rejection(reason, topic, output_id, self._scope(failure.code) if output_id else "none")

    def _scope(self, code: int) -> _Scope:
        if code not in _REJECTIONS:
            return "none"
        return "record" if self._one_record_per_batch else "batch"
