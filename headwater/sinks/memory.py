"""Twin of the Kafka producer: topics in memory, acknowledged when flushed."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from headwater.errors import BrokerUnavailable
from headwater.model.record import Headers
from headwater.sinks.base import oversize

MAX_QUEUED_RECORDS = 100_000


class Produced(NamedTuple):
    """One record as it stands on a topic."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp_ms: int
    headers: Headers


class MemoryTopics:
    """What several producers write to; `records` in the order of arrival."""

    def __init__(self, names: Sequence[str]) -> None:
        self.records: dict[str, list[Produced]] = {name: [] for name in names}


class MemoryProducer:
    """Implements sinks.base.Producer."""

    def __init__(self, topics: MemoryTopics, needed: Sequence[str] = (), max_queued: int = MAX_QUEUED_RECORDS) -> None:
        self._topics = topics
        self._needed = needed
        self._max_queued = max_queued
        self._queue: deque[Produced] = deque()
        self._failed: list[str] = []

    def connect(self, timeout_s: float) -> None:  # noqa: ARG002 - nothing here takes time
        missing = [topic for topic in self._needed if topic not in self._topics.records]
        if missing:
            raise BrokerUnavailable(f"Kafka has no topic {missing[0]}. Deploy the pipeline again to create it.")

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: Headers,
    ) -> None:
        assert oversize(value, key, headers) is None, "the sink checks the size"
        self._queue.append(Produced(topic, value, key, partition, timestamp_ms, headers))

    def saturated(self) -> bool:
        if len(self._queue) > self._max_queued:
            self.deliver(len(self._queue) - self._max_queued)
        return False

    def flush(self, timeout_s: float) -> int:  # noqa: ARG002 - nothing here takes time
        self.deliver(len(self._queue))
        return len(self._queue)

    def deliver(self, count: int) -> None:
        """Acknowledge the oldest `count` queued records."""
        for _ in range(min(count, len(self._queue))):
            record = self._queue.popleft()
            if record.topic in self._topics.records:
                self._topics.records[record.topic].append(record)
            else:
                self._failed.append(f"The topic {record.topic} does not exist.")

    def failures(self) -> list[str]:
        failed, self._failed = self._failed, []
        return failed

    def close(self) -> None:
        self._queue.clear()
