"""Finds partitions that hold records and give none.

librdkafka can lose a partition on the way to a new leader epoch (librdkafka issue 4492: it stays in the state
validate-epoch-wait) and says nothing then. Reading it anew from the same offset mends that, and does no harm else. A
partition that gave no record since it was assigned or sought has no offset yet, and is not looked at.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from confluent_kafka import Consumer, KafkaException, TopicPartition

LOOK_EVERY_S = 60.0
REQUEST_S = 1.0


class Stalls:
    """Looks every LOOK_EVERY_S at the partitions that have not moved since the last look. clock: monotonic seconds."""

    def __init__(self, consumer: Consumer, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._consumer = consumer
        self._topic = topic
        self._clock = clock
        self._look_at = clock() + LOOK_EVERY_S
        self._before: dict[int, int] = {}

    def forget(self) -> None:
        """Partitions stand still for a good reason: begin anew."""
        self._before.clear()

    def look(self, partitions: Iterable[int]) -> dict[int, int]:
        """The stalled partitions, and the offset that each has come to. Asks the broker about few or none."""
        if self._clock() < self._look_at:
            return {}
        self._look_at = self._clock() + LOOK_EVERY_S
        found = self._consumer.position([TopicPartition(self._topic, p) for p in partitions])
        now = {p.partition: p.offset for p in found if p.offset >= 0}
        before, self._before = self._before, now
        return dict(self._with_records({p: offset for p, offset in now.items() if before.get(p) == offset}))

    def _with_records(self, standing: dict[int, int]) -> Iterator[tuple[int, int]]:
        for partition, offset in standing.items():
            try:
                marks = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=REQUEST_S)
            except KafkaException:
                return  # Kafka is away, and all partitions with it
            if marks is not None and marks[1] > offset:
                yield partition, offset
