"""Remembers the output ids of unacknowledged records.

A delivery report contains only the record id.
"""

from bisect import bisect
from operator import itemgetter
from typing import Final, Literal

from confluent_kafka import KafkaError

from headwater.native.bytes_column import BytesColumn
from headwater.native.librdkafka import DeliveryFailure, OutputIdColumn
from headwater.sinks.base import ProducerFailure
from headwater.sinks.outputs import OutputBatch

_INVALID_RECORD_ERRORS: Final = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)
"""Errors for which the broker rejects a whole batch because of some of its records.

The broker's response names the invalid records (KIP-467). When it names exactly one, librdkafka 2.5 to 2.16 reports
that record's error for every record of the batch (`rd_kafka_dr_msgq0`).
"""

_Cause = Literal["record", "batch", "other"]


class SentRecords:
    """The records that were sent since the last `clear`.

    Args:
        one_record_per_batch: Whether each record is sent in its own batch, so that a batch error identifies the record.
    """

    def __init__(self, *, one_record_per_batch: bool) -> None:
        self._one_record_per_batch = one_record_per_batch
        self._sent: list[tuple[int, str, BytesColumn | OutputIdColumn | None]] = []

    def add(self, first_record_id: int, outputs: OutputBatch) -> None:
        """Add sent records.

        Args:
            first_record_id: The id of the first record, see LibrdkafkaProducer.new_batch.
            outputs: The records.
        """
        self._sent.append((first_record_id, outputs.topic, outputs.ids))

    def clear(self) -> None:
        """Forget all records, which are acknowledged."""
        self._sent.clear()

    def producer_failure(self, failure: DeliveryFailure) -> ProducerFailure:
        """Return the failure of a delivery, with what is known about its record."""
        first_record_id, topic, ids = self._sent[bisect(self._sent, failure.record_id, key=itemgetter(0)) - 1]
        row = failure.record_id - first_record_id
        output_id = _output_id(ids, row)
        return ProducerFailure(
            reason=f"A record was not written to {topic}: {KafkaError(failure.code).str()}.",
            topic=topic,
            output_id=output_id,
            source_partition=ids.partitions[row] if isinstance(ids, OutputIdColumn) else None,
            cause=self._cause(failure.code) if output_id else "other",
        )

    def _cause(self, code: int) -> _Cause:
        if code not in _INVALID_RECORD_ERRORS:
            return "other"
        return "record" if self._one_record_per_batch else "batch"


def _output_id(ids: BytesColumn | OutputIdColumn | None, row: int) -> bytes:
    """Return the output id of a row; empty when the sink writes none."""
    if ids is None:
        return b""
    if isinstance(ids, OutputIdColumn):
        return ids.value(row)
    return ids[row] or b""
