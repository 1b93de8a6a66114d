"""Kafka as a sink: one per topic."""

from headwater.model.record import Failure, RecordBatch, SourceNames, position_names
from headwater.model.transform import MAX_OUTPUT_BYTES
from headwater.model.worker import SinkSpec
from headwater.native.kafka import Header
from headwater.sinks.base import SOURCE_HEADER, Outputs, Writer, oversize, source_column, source_ids, times_to_write


class KafkaSink:
    """Implements sinks.base.Sink: a record keeps its key, and goes to the partition number that it came from."""

    def __init__(self, name: str, topic: str, names: SourceNames = position_names) -> None:
        self.name = name
        self.topic = topic
        self._names = names

    def send(self, batch: RecordBatch, producer: Writer) -> list[Failure]:
        failures = self._too_large(batch)
        if failures:
            refused = {failure.row for failure in failures}
            batch = batch.select(row not in refused for row in range(len(batch)))
        times = times_to_write(batch.timestamps)
        headers = [Header(SOURCE_HEADER, source_column(batch, self._names))]
        producer.produce(Outputs(self.topic, batch.values, batch.keys, batch.partitions, times, headers))
        return failures

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
    return KafkaSink(spec.name, spec.topic, names)
