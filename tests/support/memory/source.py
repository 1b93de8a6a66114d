"""Twin of the Kafka source: a topic, a consumer group that moves partitions cooperatively, and its members."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.errors import BrokerUnavailable, Fenced
from headwater.model.record import RecordBatch, Row, batch_of, position_names
from headwater.sources.base import Gap, Positions, RebalanceListener, no_position, recreated, truncated


class MemoryRecord(NamedTuple):
    """One record of a partition."""

    offset: int
    value: bytes | None
    key: bytes | None
    timestamp: int


@dataclass(slots=True)
class MemoryTopic:
    """A topic; partitions are lists of records with rising offsets. id: raised when it is made again.

    not_read: partitions that can't be read at the moment, each with the reason.
    """

    name: str
    partitions: list[list[MemoryRecord]]
    ends: list[int] = field(init=False)
    id: int = 1
    not_read: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ends = [0 for _ in self.partitions]

    def append(self, partition: int, value: bytes | None, key: bytes | None = None, timestamp: int = 0) -> int:
        """Add a record; its offset."""
        offset = self.ends[partition]
        self.partitions[partition].append(MemoryRecord(offset, value, key, timestamp))
        self.ends[partition] = offset + 1
        return offset

    def truncate(self, partition: int, before: int) -> None:
        """Delete the records below an offset, as retention does."""
        self.partitions[partition] = [r for r in self.partitions[partition] if r.offset >= before]

    def recreate(self) -> None:
        """Delete the topic and make it again, with as many partitions."""
        self.id += 1
        self.partitions = [[] for _ in self.partitions]
        self.__post_init__()

    def first(self, partition: int) -> int:
        """The earliest offset."""
        records = self.partitions[partition]
        return records[0].offset if records else self.ends[partition]

    def read(self, partition: int, offset: int, count: int) -> list[MemoryRecord]:
        """Up to `count` records from `offset` on, which is on the topic."""
        begin = offset - self.first(partition)
        return self.partitions[partition][begin : begin + count]


class MemoryGroup:
    """A consumer group: who owns which partition, and how far each was committed.

    A partition moves as under cooperative-sticky: its owner gives it up in a poll of its own, then it is free.
    topic_ids: of the topic that was committed on, by partition, where that is known.
    """

    def __init__(self, topic: MemoryTopic, committed: Positions | None = None) -> None:
        self.topic = topic
        self.committed: Positions = dict(committed or {})
        self.topic_ids: dict[int, int] = {}
        self.members: list[MemorySource] = []
        self.owners: dict[int, MemorySource] = {}
        self.targets: dict[int, MemorySource] = {}

    def add(self, member: "MemorySource") -> None:
        """A member joins; partitions are dealt anew."""
        self.members.append(member)
        self.deal()

    def remove(self, member: "MemorySource") -> None:
        """A member left, or its session ended: its partitions are free at once."""
        if member in self.members:
            self.members.remove(member)
            self.owners = {p: owner for p, owner in self.owners.items() if owner is not member}
            self.deal()

    def deal(self) -> None:
        """Spread the partitions evenly; each stays where it is when it can."""
        count = len(self.topic.partitions)
        quota = -(-count // len(self.members)) if self.members else 0
        room = dict.fromkeys(map(id, self.members), quota)
        targets: dict[int, MemorySource] = {}
        for partition, owner in sorted(self.owners.items()):
            if room.get(id(owner), 0):
                targets[partition] = owner
                room[id(owner)] -= 1
        for partition in range(count):
            if partition not in targets and self.members:
                member = max(self.members, key=lambda m: room[id(m)])
                targets[partition] = member
                room[id(member)] -= 1
        self.targets = targets

    def start(self, partition: int) -> int:
        """Where a new owner starts: at the commit; without one, a partition that came later starts at its first."""
        if partition in self.committed:
            return self.committed[partition]
        return self.topic.first(partition)

    def check_topic(self) -> None:
        """Raises SourceGap when there is no position, or one on another topic of the same name."""
        if not self.committed:
            raise no_position(self.topic.name)
        if not {self.topic.id} >= set(self.topic_ids.values()):
            raise recreated(self.topic.name)

    def commit(self, positions: Positions, topic_id: int) -> None:
        """Store positions on the topic with this id."""
        self.committed.update(positions)
        self.topic_ids.update(dict.fromkeys(positions, topic_id))

    def recreate_topic(self) -> None:
        """The topic is deleted and made again; as in Kafka, the positions go with it."""
        self.topic.recreate()
        self.committed.clear()
        self.topic_ids.clear()


class MemorySource:
    """Implements sources.base.Source: one member of a MemoryGroup."""

    def __init__(self, group: MemoryGroup, sleep: Callable[[float], None] = time.sleep) -> None:
        self._group = group
        self._sleep = sleep
        self._listener: RebalanceListener | None = None
        self._positions: Positions = {}
        self._gaps: list[Gap] = []
        self._topic_id = 0
        self._only: Collection[int] | None = None
        self._joined = self._paused = False

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener
        self._group.add(self)

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        self._serve_group()
        topic = self._group.topic
        if self._joined and self._topic_id != topic.id:
            raise recreated(topic.name)
        rows: list[Row] = []
        if not self._paused:
            not_read, read = self.not_read(), self._read_partitions()
            if not_read and not_read.keys() == read:
                raise BrokerUnavailable(next(iter(not_read.values())))
            for partition in sorted(read - not_read.keys()):
                rows += self._read(partition, max_records - len(rows))
        if not rows:
            self._sleep(timeout_s)
        return batch_of(topic.name, rows)

    def _read_partitions(self) -> set[int]:
        """The assigned partitions that `read_only` allows."""
        return set(self._positions) if self._only is None else self._positions.keys() & set(self._only)

    def _read(self, partition: int, count: int) -> list[Row]:
        self._pass_gap(partition)
        records = self._group.topic.read(partition, self._positions[partition], count)
        if records:
            self._positions[partition] = records[-1].offset + 1
        return [Row(record.value, record.key, record.timestamp, partition, record.offset) for record in records]

    def _pass_gap(self, partition: int) -> None:
        topic, position = self._group.topic, self._positions[partition]
        if position > topic.ends[partition]:
            raise truncated(topic.name, partition, position, topic.ends[partition])
        if position < topic.first(partition):
            self._positions[partition] = topic.first(partition)
            self._gaps.append(Gap(topic.name, partition, position, topic.first(partition)))

    def gaps(self) -> list[Gap]:
        gaps, self._gaps = self._gaps, []
        return gaps

    def not_read(self) -> Mapping[int, str]:
        read = self._read_partitions()
        return {partition: why for partition, why in self._group.topic.not_read.items() if partition in read}

    def _serve_group(self) -> None:
        group, listener = self._group, self._listener
        if listener is None:
            return
        if self not in group.members and self._joined:
            self._drop(self._positions, listener.lost)
            self._joined = False
            group.add(self)
        self._drop([p for p in self._positions if group.owners.get(p) is not self], listener.lost)
        self._drop([p for p in self._positions if group.targets.get(p) is not self], listener.revoked)
        free = [p for p, member in group.targets.items() if member is self and p not in group.owners]
        if free or not self._joined:
            if free:
                group.check_topic()
            self._joined, self._topic_id = True, self._topic_id or group.topic.id
            self._positions.update({p: group.start(p) for p in free})
            group.owners.update(dict.fromkeys(free, self))
            listener.assigned(sorted(free))

    def _drop(self, partitions: Iterable[int], tell: Callable[[list[int]], None]) -> None:
        gone = sorted(partitions)
        if not gone:
            return
        tell(gone)
        for partition in gone:
            del self._positions[partition]
            if self._group.owners.get(partition) is self:
                del self._group.owners[partition]

    def seek(self, positions: Positions) -> None:
        if not positions.keys() <= self._positions.keys():
            raise Fenced(f"These partitions are not assigned: {sorted(positions.keys() - self._positions.keys())}.")
        self._positions.update(positions)

    def commit(self, positions: Positions, *, wait: bool) -> None:
        fenced = self._fenced(positions)
        self._group.commit({p: o for p, o in positions.items() if p not in fenced}, self._topic_id)
        if fenced and wait:
            raise BrokerUnavailable(f"The positions of partitions {fenced} belong to another worker now.")

    def names(self, batch: RecordBatch) -> list[bytes]:
        return position_names(batch)

    def membership(self) -> "MemorySource":
        return self

    def store(self, positions: Mapping[int, int]) -> bool:
        """See sinks.memory.Membership."""
        if self._fenced(positions):
            return False
        self._group.commit(dict(positions), self._topic_id)
        return True

    def _fenced(self, positions: Iterable[int]) -> list[int]:
        """The partitions among these that are not this member's."""
        return [p for p in positions if self._group.owners.get(p) is not self]

    def committed(self) -> Positions:
        return {p: o for p, o in self._group.committed.items() if p in self._positions}

    def read_only(self, partitions: Collection[int] | None) -> None:
        self._only = partitions

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self, *, leave: bool = False) -> None:
        self._listener = None
        self._positions.clear()
        self._group.remove(self)
