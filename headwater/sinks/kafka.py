"""Kafka as a sink: one per topic."""

import numpy as np

from headwater.model.record import Failure, Numbers, RecordBatch, SourceNames, position_names
from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.model.worker import SinkSpec
from headwater.native.kafka import Header
from headwater.sinks.base import (
    MAX_AGE_MS,
    SOURCE_HEADER,
    Outputs,
    Writer,
    oversize,
    source_column,
    source_ids,
    times_to_write,
)

NO_KEY = (
    "The record has no key, and the topic of this sink is compacted: Kafka keeps the newest record of each key there. "
    'Feed records with keys, or set the sink\'s cleanup_policy to "delete".'
)


class KafkaSink:
    """Implements sinks.base.Sink: a record keeps its key, and goes to the partition number that it came from.

    partitions: The topic's number of partitions, where it is not that of the source: a record of partition p goes to
    partition p modulo this number. is_compacted: Whether the topic refuses records without a key. retention_ms: How
    long the topic keeps a record, where this is not as long as for all outputs.
    """

    def __init__(
        self,
        name: str,
        topic: str,
        names: SourceNames = position_names,
        *,
        partitions: int | None = None,
        is_compacted: bool = False,
        retention_ms: int | None = None,
    ) -> None:
        self.name = name
        self.topic = topic
        self._names = names
        self._partitions = partitions
        self._is_compacted = is_compacted
        # A record that is already old when it is written is kept for half of the time at least.
        self._max_age_ms = MAX_AGE_MS if retention_ms is None else min(MAX_AGE_MS, retention_ms // 2)

    def send(self, batch: RecordBatch, producer: Writer) -> list[Failure]:
        failures = self._failures(batch)
        if failures:
            refused = {failure.row for failure in failures}
            batch = batch.select(row not in refused for row in range(len(batch)))
        times = times_to_write(batch.timestamps, max_age_ms=self._max_age_ms)
        headers = [Header(SOURCE_HEADER, source_column(batch, self._names))]
        targets = self._targets(batch.partitions)
        producer.produce(Outputs(self.topic, batch.values, batch.keys, targets, times, headers))
        return failures

    def _targets(self, sources: Numbers) -> Numbers:
        """The topic's partitions for records of these partitions of the source."""
        if self._partitions is None:
            return sources
        return Numbers("q", (np.frombuffer(sources, np.int64) % self._partitions).tobytes())

    def _failures(self, batch: RecordBatch) -> list[Failure]:
        """The records that the topic can't take, in order; each of them once."""
        failures = self._without_key(batch) + self._too_large(batch)
        return [failure for _, failure in sorted({f.row: f for f in failures}.items())]

    def _without_key(self, batch: RecordBatch) -> list[Failure]:
        if not self._is_compacted or batch.keys.smallest >= 0:
            return []
        return [Failure(row, "NoKey", NO_KEY, self.name) for row, size in enumerate(batch.keys.sizes) if size < 0]

    def _too_large(self, batch: RecordBatch) -> list[Failure]:
        """The records that the topic can't take: looks at each one only when some are large."""
        if batch.values.largest + batch.keys.largest <= MAX_OUTPUT_BYTES:
            return []
        faults = [self._fault(batch, *row) for row in enumerate(source_ids(batch, self._names))]
        return [Failure(row, "TooLarge", fault, self.name) for row, fault in enumerate(faults) if fault is not None]

    def _fault(self, batch: RecordBatch, row: int, origin: bytes) -> str | None:
        return oversize(batch.values[row], batch.keys[row], [(SOURCE_HEADER, origin)])


def build(spec: SinkSpec, names: SourceNames) -> KafkaSink:
    """The sink of a worker spec."""
    return KafkaSink(
        spec.name,
        spec.topic,
        names,
        partitions=spec.partitions,
        is_compacted=spec.is_compacted,
        retention_ms=spec.retention_ms,
    )
