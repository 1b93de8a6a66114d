"""In-memory implementations of both producers, for tests.

Records reach their topic on flush or on commit.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from headwater.errors import BrokerUnavailable, TransactionFailed
from headwater.model.record import Headers
from headwater.sinks.base import ProducerFailure
from headwater.sinks.outputs import OutputBatch, size_error, values_bytes

MAX_QUEUED_RECORDS = 100_000


class Produced(NamedTuple):
    """A record of a topic."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp_ms: int
    headers: Headers


def _produced(outputs: OutputBatch) -> Iterator[Produced]:
    columns = zip(outputs.values, outputs.keys, outputs.partitions, outputs.timestamps, strict=True)
    for number, row in enumerate(columns):
        record = Produced(outputs.topic, *row, outputs.headers_of(number))
        assert size_error(record.value, record.key, record.headers) is None, "the sink checks the size"
        yield record


class MemoryTopics:
    """Topics that several producers write to.

    Attributes:
        records: The records of each topic, in the order of their arrival.
        epochs: The epoch of each transactional id.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.records: dict[str, list[Produced]] = {name: [] for name in names}
        self.epochs: Counter[str] = Counter()

    def require(self, needed: Iterable[str]) -> None:
        """Raise BrokerUnavailable when one of these topics does not exist."""
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
        self._failed: list[ProducerFailure] = []

    def connect(self, timeout_s: float) -> None:
        self._topics.require(self._needed)

    def produce(self, outputs: OutputBatch) -> None:
        self._queue += _produced(outputs)

    def append(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        self.produce(OutputBatch.of(topic, [value], [key], [partition], [0]))

    def is_queue_full(self) -> bool:
        return len(self._queue) > self._max_queued

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
                self._failed.append(ProducerFailure(f"The topic {record.topic} does not exist."))

    def take_failures(self) -> list[ProducerFailure]:
        failed, self._failed = self._failed, []
        return failed

    def close(self) -> None:
        self._queue.clear()


class MemoryGroupMember(Protocol):
    """A member of a MemoryGroup."""

    def store(self, positions: Mapping[int, int]) -> bool:
        """Commit positions.

        Return False, and commit nothing, when the member does not own one of the partitions.
        """


class MemoryTransactionalProducer:
    """Implements sinks.base.TransactionalProducer."""

    def __init__(self, topics: MemoryTopics, transactional_id: str, needed: Sequence[str] = ()) -> None:
        self._topics = topics
        self._needed = needed
        self._id = transactional_id
        self._epoch = 0
        self._pending: list[OutputBatch] = []

    def connect(self, timeout_s: float) -> None:
        self._topics.require(self._needed)

    def init_transactions(self, timeout_s: float) -> None:
        self._topics.epochs[self._id] += 1
        self._epoch = self._topics.epochs[self._id]

    def produce(self, outputs: OutputBatch) -> None:
        self._pending.append(outputs)

    def pending_records(self) -> int:
        return sum(map(len, self._pending))

    def pending_bytes(self) -> int:
        return values_bytes(self._pending)

    def take_failures(self) -> list[ProducerFailure]:
        return []

    def drop_source_partitions(self, partitions: Collection[int]) -> None:
        self._pending = [outputs.without_source_partitions(partitions) for outputs in self._pending]

    def commit(self, positions: Mapping[int, int], group_metadata: Callable[[], object]) -> None:
        rows, self._pending = [row for outputs in self._pending for row in _produced(outputs)], []
        if self._epoch != self._topics.epochs[self._id]:
            raise TransactionFailed("Another producer took over the transactional id.")
        if any(row.topic not in self._topics.records for row in rows):
            raise TransactionFailed("A topic does not exist.")
        if positions and not cast("MemoryGroupMember", group_metadata()).store(positions):
            raise TransactionFailed("The positions belong to another worker now.")
        for row in rows:
            self._topics.records[row.topic].append(row)

    def close(self) -> None:
        self._pending.clear()
