"""The sink that writes to a Kafka topic."""

import numpy as np

from headwater.model.outputs import MAX_OUTPUT_BYTES, OUTPUT_ID_HEADER
from headwater.model.record import Failure, Int64Column, RecordBatch, SourceIds, position_ids
from headwater.model.worker_spec import SinkSpec
from headwater.native.librdkafka import HeaderColumn
from headwater.sinks.base import OutputWriter
from headwater.sinks.outputs import (
    MAX_TIMESTAMP_AGE_MS,
    OutputBatch,
    output_id_column,
    output_ids,
    output_timestamps,
    size_error,
)

NO_KEY = (
    "The record has no key, and the topic of this sink is compacted: Kafka keeps the newest record of each key there. "
    'Feed records with keys, or set the sink\'s cleanup_policy to "delete".'
)


class KafkaSink:
    """Implements sinks.base.Sink: an output keeps the key and the partition of its record.

    Args:
        name: The name of the sink.
        topic: The topic to write to.
        source_ids: Returns the ids of source records.
        partitions: The number of partitions of the topic, if it differs from that of the source: an output of partition
            p then goes to partition p modulo this number.
        is_compacted: Whether the topic is compacted, so that it rejects records without a key.
        retention_ms: The retention of the topic, if it is not the default of all outputs.
    """

    def __init__(
        self,
        name: str,
        topic: str,
        source_ids: SourceIds = position_ids,
        *,
        partitions: int | None = None,
        is_compacted: bool = False,
        retention_ms: int | None = None,
    ) -> None:
        self.name = name
        self.topic = topic
        self._source_ids = source_ids
        self._partitions = partitions
        self._is_compacted = is_compacted
        # An old record keeps its timestamp only while at least half of the retention time is left.
        self._max_age_ms = (
            MAX_TIMESTAMP_AGE_MS if retention_ms is None else min(MAX_TIMESTAMP_AGE_MS, retention_ms // 2)
        )

    def send(self, batch: RecordBatch, producer: OutputWriter) -> list[Failure]:
        failures = self._failures(batch)
        if failures:
            failed_rows = {failure.row for failure in failures}
            batch = batch.select(row not in failed_rows for row in range(len(batch)))
        times = output_timestamps(batch.timestamps, max_age_ms=self._max_age_ms)
        headers = [HeaderColumn(OUTPUT_ID_HEADER, output_id_column(batch, self._source_ids))]
        partitions = self._target_partitions(batch.partitions)
        producer.produce(OutputBatch(self.topic, batch.values, batch.keys, partitions, times, headers))
        return failures

    def _target_partitions(self, source_partitions: Int64Column) -> Int64Column:
        if self._partitions is None:
            return source_partitions
        return Int64Column("q", (np.frombuffer(source_partitions, np.int64) % self._partitions).tobytes())

    def _failures(self, batch: RecordBatch) -> list[Failure]:
        """Return the records that the topic can't take, each once, in order."""
        failures = self._records_without_key(batch) + self._too_large_records(batch)
        return [failure for _, failure in sorted({f.row: f for f in failures}.items())]

    def _records_without_key(self, batch: RecordBatch) -> list[Failure]:
        if not self._is_compacted or batch.keys.min_size >= 0:
            return []
        return [Failure(row, "NoKey", NO_KEY, self.name) for row, size in enumerate(batch.keys.sizes) if size < 0]

    def _too_large_records(self, batch: RecordBatch) -> list[Failure]:
        """Return the records that are too large.

        Each record is checked only if the largest value and the largest key together might be too large.
        """
        if batch.values.max_size + batch.keys.max_size <= MAX_OUTPUT_BYTES:
            return []
        errors = [self._size_error(batch, *row) for row in enumerate(output_ids(batch, self._source_ids))]
        return [Failure(row, "TooLarge", error, self.name) for row, error in enumerate(errors) if error is not None]

    def _size_error(self, batch: RecordBatch, row: int, output_id: bytes) -> str | None:
        return size_error(batch.values[row], batch.keys[row], [(OUTPUT_ID_HEADER, output_id)])


def build(spec: SinkSpec, source_ids: SourceIds) -> KafkaSink:
    """Return a sink of a worker spec."""
    return KafkaSink(
        spec.name,
        spec.topic,
        source_ids,
        partitions=spec.partitions,
        is_compacted=spec.is_compacted,
        retention_ms=spec.retention_ms,
    )
