"""The sink `prices`: writes records as ticks to the topic that all price pipelines share."""

import time
from collections.abc import Callable

from headwater.model.price.tick import TICKS_TOPIC, BadTick, encode_tick, partition_of
from headwater.model.record import Failure, RecordBatch, SourceIds
from headwater.model.worker_spec import SinkSpec
from headwater.sinks.base import OutputWriter
from headwater.sinks.outputs import OutputBatch, output_timestamps


class PricesSink:
    """Implements sinks.base.Sink. A record that can't be converted to a tick is a failure.

    Args:
        name: The name of the sink.
        epoch_s: Returns the seconds since the epoch.
    """

    topic = TICKS_TOPIC

    def __init__(self, name: str, epoch_s: Callable[[], float] = time.time) -> None:
        self.name = name
        self._epoch_s = epoch_s

    def send(self, batch: RecordBatch, producer: OutputWriter) -> list[Failure]:
        ticks: list[bytes] = []
        keys: list[bytes] = []
        times: list[int] = []
        failures: list[Failure] = []
        now_ms = int(self._epoch_s() * 1000)
        for row, (value, timestamp) in enumerate(zip(batch.values, output_timestamps(batch.timestamps), strict=True)):
            try:
                key, tick = encode_tick(value, now_ms)
            except BadTick as error:
                failures.append(Failure(row, error.error, error.message, self.name))
            else:
                ticks.append(tick)
                keys.append(key)
                times.append(timestamp)
        producer.produce(OutputBatch.of(TICKS_TOPIC, ticks, keys, [*map(partition_of, keys)], times))
        return failures


def build(spec: SinkSpec, source_ids: SourceIds) -> PricesSink:  # noqa: ARG001 - a repeated tick has no effect
    """Return a sink of a worker spec."""
    return PricesSink(spec.name)
