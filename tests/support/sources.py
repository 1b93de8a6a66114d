"""A topic and a consumer group, in memory and on Kafka, for the contract tests of sources."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

from confluent_kafka import TopicPartition

from headwater.model.record import RecordBatch
from headwater.sources.base import Positions, Source
from headwater.sources.kafka import KafkaSource
from tests.support.kafka import KafkaServer
from tests.support.memory.source import MemoryGroup, MemorySource, MemoryTopic

POLLS = 400
POLL_S = 0.1


class Bench(Protocol):
    """A topic, a consumer group, and changes that other programs make to them."""

    topic: str

    def append(
        self, partition: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> None:
        """Add records to the topic."""

    def pin(self, positions: Positions) -> None:
        """Commit positions for the group, which has no members."""

    def positions(self) -> Positions:
        """Return the committed positions of the group."""

    def delete_records(self, partition: int, before: int) -> None:
        """Delete the records below an offset."""

    def recreate(self) -> None:
        """Delete the topic, and create it again under the same name."""

    def grow(self, partitions: int) -> None:
        """Add partitions."""

    def source(self) -> Source:
        """Return a new member that has not joined yet. It is closed at the end of the test."""


class MemoryBench:
    topic = "stream"

    def __init__(self) -> None:
        self._topic = MemoryTopic(self.topic, [[], []])
        self._group = MemoryGroup(self._topic)

    def append(
        self, partition: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> None:
        for value, key in zip(values, keys or [None] * len(values), strict=True):
            self._topic.append(partition, value, key, 1)

    def pin(self, positions: Positions) -> None:
        self._group.committed.update(positions)

    def positions(self) -> Positions:
        return dict(self._group.committed)

    def delete_records(self, partition: int, before: int) -> None:
        self._topic.delete_records(partition, before)

    def recreate(self) -> None:
        self._group.recreate_topic()

    def grow(self, partitions: int) -> None:
        while len(self._topic.partitions) < partitions:
            self._topic.partitions.append([])
            self._topic.ends.append(0)

    def source(self) -> MemorySource:
        return MemorySource(self._group, lambda seconds: None)


class KafkaBench:
    def __init__(self, kafka: KafkaServer, config: dict[str, str] | None = None) -> None:
        self._kafka = kafka
        self._cleanup = contextlib.ExitStack()
        self.topic = kafka.create_topic(kafka.unique("stream"), 2, config)
        self.group = kafka.unique("group")

    def append(
        self, partition: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> None:
        self._kafka.produce(self.topic, values, partition=partition, keys=keys)

    def pin(self, positions: Positions, epoch: int = -1) -> None:
        """Commit positions. `epoch` is the leader epoch of the records before them."""
        self._kafka.commit(self.group, self.topic, positions, epoch)

    def positions(self) -> Positions:
        with self._kafka.consumer(group=self.group) as consumer:
            committed = consumer.committed([TopicPartition(self.topic, p) for p in range(3)], 30)
        return {p.partition: p.offset for p in committed if p.offset >= 0}

    def delete_records(self, partition: int, before: int) -> None:
        self._kafka.truncate(self.topic, partition, before)

    def recreate(self) -> None:
        self._kafka.recreate_topic(self.topic, 2)

    def grow(self, partitions: int) -> None:
        self._kafka.grow(self.topic, partitions)

    def source(self) -> KafkaSource:
        return self.member(None)

    def member(self, instance_id: str | None) -> KafkaSource:
        return self._closed_later(KafkaSource(self._kafka.access, self.topic, self.group, instance_id=instance_id))

    def members(self) -> set[str | None]:
        """Return the instance ids of the group's members."""
        described = self._kafka.admin.describe_consumer_groups([self.group])[self.group].result()
        return {member.group_instance_id for member in described.members}

    def starting(self, starts: Callable[[list[int], str], Positions]) -> KafkaSource:
        """Return a source with start positions."""
        return self._closed_later(KafkaSource(self._kafka.access, self.topic, self.group, read_starts=starts))

    def _closed_later(self, source: KafkaSource) -> KafkaSource:
        self._cleanup.callback(source.close)
        return source

    def close(self) -> None:
        self._cleanup.close()


class Listener:
    """Records the rebalance callbacks, and the owned partitions."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.owned: set[int] = set()
        self.before_release: Callable[[], None] = lambda: None

    def on_assigned(self, partitions: list[int]) -> None:
        self.calls.append(("assigned", partitions))
        self.owned.update(partitions)

    def on_revoked(self, partitions: list[int]) -> None:
        self.calls.append(("revoked", partitions))
        self.before_release()
        self.owned.difference_update(partitions)

    def on_lost(self, partitions: list[int]) -> None:
        self.calls.append(("lost", partitions))
        self.owned.difference_update(partitions)


def joined(source: Source) -> Listener:
    """Join, and poll until the first assignment. A record that this poll returns is read again."""
    listener = Listener()
    source.join(listener)
    for _ in range(POLLS):
        if listener.calls:
            break
        source.seek({partition: offset for partition, offset, _ in rows(source.poll(1, POLL_S))})
    assert listener.calls[0][0] == "assigned"
    return listener


def rows(batch: RecordBatch) -> list[tuple[int, int, bytes | None]]:
    return list(zip(batch.partitions, batch.offsets, batch.values, strict=True))


def read(source: Source, count: int, max_records: int = 100) -> list[tuple[int, int, bytes | None]]:
    """Return the next `count` records, which must be the last ones."""
    found: list[tuple[int, int, bytes | None]] = []
    for _ in range(POLLS):
        if len(found) >= count:
            break
        batch = source.poll(max_records, POLL_S)
        assert len(batch) <= max_records
        found += rows(batch)
    assert len(found) == count
    return found


def start(bench: Bench, positions: Positions | None = None) -> tuple[Source, Listener]:
    bench.pin(positions or {0: 0, 1: 0})
    source = bench.source()
    return source, joined(source)
