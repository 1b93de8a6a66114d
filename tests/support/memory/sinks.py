"""Twins of the Kafka producers: topics in memory; records arrive when flushed, or with their transaction."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from headwater.errors import BrokerUnavailable, DeliveryFailed
from headwater.model.record import Headers
from headwater.sinks.base import Outputs, Refusal, oversize

MAX_QUEUED_RECORDS = 100_000


class Produced(NamedTuple):
    """One record as it stands on a topic."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp_ms: int
    headers: Headers


def _produced(outputs: Outputs) -> Iterator[Produced]:
    columns = zip(outputs.values, outputs.keys, outputs.partitions, outputs.timestamps, strict=True)
    for number, row in enumerate(columns):
        record = Produced(outputs.topic, *row, outputs.headers_of(number))
        assert oversize(record.value, record.key, record.headers) is None, "the sink checks the size"
        yield record


class MemoryTopics:
    """What several producers write to; `records` in the order of arrival. epochs: by transactional id."""

    def __init__(self, names: Sequence[str]) -> None:
        self.records: dict[str, list[Produced]] = {name: [] for name in names}
        self.epochs: Counter[str] = Counter()

    def require(self, needed: Iterable[str]) -> None:
        """Raises BrokerUnavailable when one of these topics is not there."""
        missing = [topic for topic in needed if topic not in self.records]
        if missing:
            raise BrokerUnavailable(f"Kafka has no topic {missing[0]}. Deploy the pipeline again to create it.")


class MemoryProducer:
    """Implements sinks.base.Producer."""

    def __init__(self, topics: MemoryTopics, needed: Sequence[str] = (), max_queued: int = MAX_QUEUED_RECORDS) -> None:
        self._topics = topics
        self._needed = needed
        self._max_queued = max_queued
        self._queue: deque[Produced] = deque()
        self._failed: list[Refusal] = []

    def connect(self, timeout_s: float) -> None:
        self._topics.require(self._needed)

    def produce(self, outputs: Outputs) -> None:
        self._queue += _produced(outputs)

    def append(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        self.produce(Outputs.of(topic, [value], [key], [partition], [0]))

    def push(self) -> None:
        """Nothing to do: records wait here for their acknowledgement alone."""

    def saturated(self) -> bool:
        if len(self._queue) > self._max_queued:
            self.deliver(len(self._queue) - self._max_queued)
        return False

    def outstanding(self) -> int:
        return len(self._queue)

    def flush(self, timeout_s: float) -> int:
        self.deliver(len(self._queue))
        return len(self._queue)

    def deliver(self, count: int) -> None:
        """Acknowledge the oldest `count` queued records."""
        for _ in range(min(count, len(self._queue))):
            record = self._queue.popleft()
            if record.topic in self._topics.records:
                self._topics.records[record.topic].append(record)
            else:
                self._failed.append(Refusal(f"The topic {record.topic} does not exist."))

    def failures(self) -> list[Refusal]:
        failed, self._failed = self._failed, []
        return failed

    def close(self) -> None:
        self._queue.clear()


class Membership(Protocol):
    """A member of sources.memory.MemoryGroup."""

    def store(self, positions: Mapping[int, int]) -> bool:
        """Store positions of the member's partitions; False, and nothing is stored, when one is not its own."""


class MemoryTransactionalProducer:
    """Implements sinks.base.TransactionalProducer."""

    def __init__(self, topics: MemoryTopics, transactional_id: str, needed: Sequence[str] = ()) -> None:
        self._topics = topics
        self._needed = needed
        self._id = transactional_id
        self._epoch = 0
        self._held: list[Outputs] = []

    def connect(self, timeout_s: float) -> None:
        self._topics.require(self._needed)

    def begin(self, timeout_s: float) -> None:
        self._topics.epochs[self._id] += 1
        self._epoch = self._topics.epochs[self._id]

    def produce(self, outputs: Outputs) -> None:
        self._held.append(outputs)

    def held(self) -> int:
        return sum(map(len, self._held))

    def failures(self) -> list[Refusal]:
        return []

    def forget(self, partitions: Iterable[int]) -> None:
        gone = set(partitions)
        self._held = [outputs.without(gone) for outputs in self._held]

    def commit(self, positions: Mapping[int, int], membership: Callable[[], object]) -> None:
        rows, self._held = [row for outputs in self._held for row in _produced(outputs)], []
        if self._epoch != self._topics.epochs[self._id]:
            raise DeliveryFailed("Another producer took over the transactional id.")
        if any(row.topic not in self._topics.records for row in rows):
            raise DeliveryFailed("A topic does not exist.")
        if positions and not cast("Membership", membership()).store(positions):
            raise DeliveryFailed("The positions belong to another worker now.")
        for row in rows:
            self._topics.records[row.topic].append(row)

    def close(self) -> None:
        self._held.clear()
