"""Token prices as a sink: records become ticks on the topic that all price pipelines share."""

import time
from collections.abc import Callable

from headwater.model.price.tick import TICKS_TOPIC, BadTick, partition_of, to_topic
from headwater.model.record import Failure, RecordBatch, SourceNames
from headwater.model.worker import SinkSpec
from headwater.sinks.base import Outputs, Writer, times_to_write


class PricesSink:
    """Implements sinks.base.Sink: a record that is no tick is a failure. now: seconds since the epoch."""

    topic = TICKS_TOPIC

    def __init__(self, name: str, now: Callable[[], float] = time.time) -> None:
        self.name = name
        self._now = now

    def send(self, batch: RecordBatch, producer: Writer) -> list[Failure]:
        ticks: list[bytes] = []
        keys: list[bytes] = []
        times: list[int] = []
        failures: list[Failure] = []
        now = int(self._now() * 1000)
        for row, (value, timestamp) in enumerate(zip(batch.values, times_to_write(batch.timestamps), strict=True)):
            try:
                key, tick = to_topic(value, now)
            except BadTick as bad:
                failures.append(Failure(row, bad.error, bad.message, self.name))
            else:
                ticks.append(tick)
                keys.append(key)
                times.append(timestamp)
        producer.produce(Outputs.of(TICKS_TOPIC, ticks, keys, [*map(partition_of, keys)], times))
        return failures


def build(spec: SinkSpec, names: SourceNames) -> PricesSink:  # noqa: ARG001 - a tick that comes twice changes nothing
    """The sink of a worker spec."""
    return PricesSink(spec.name)
