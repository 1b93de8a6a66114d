"""The Kafka source in memory, for tests.

It has a topic, a consumer group, and the members of the group.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.errors import BrokerUnavailable, Fenced
from headwater.model.record import RecordBatch, SourceRecord, batch_from_records, position_ids
from headwater.sources.base import (
    Gap,
    Positions,
    RebalanceListener,
    no_committed_offset_error,
    offset_beyond_end_error,
    topic_recreated_error,
)


class MemoryRecord(NamedTuple):
    """One record of a partition."""

    offset: int
    value: bytes | None
    key: bytes | None
    timestamp: int


@dataclass(slots=True)
class MemoryTopic:
    """A topic.

    Attributes:
        name: The name of the topic.
        partitions: The records of each partition, in the order of their offsets.
        ends: The end offset of each partition.
        id: The id of the topic, which changes when the topic is recreated.
        unreadable: Partitions that can't be read at the moment, each with the reason.
    """

    name: str
    partitions: list[list[MemoryRecord]]
    ends: list[int] = field(init=False)
    id: int = 1
    unreadable: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ends = [0 for _ in self.partitions]

    def append(self, partition: int, value: bytes | None, key: bytes | None = None, timestamp: int = 0) -> int:
        """Add a record, and return its offset."""
        offset = self.ends[partition]
        self.partitions[partition].append(MemoryRecord(offset, value, key, timestamp))
        self.ends[partition] = offset + 1
        return offset

    def delete_records(self, partition: int, before: int) -> None:
        """Delete the records below an offset, as retention does."""
        self.partitions[partition] = [r for r in self.partitions[partition] if r.offset >= before]

    def recreate(self) -> None:
        """Delete the topic, and create it again with the same number of partitions."""
        self.id += 1
        self.partitions = [[] for _ in self.partitions]
        self.__post_init__()

    def first(self, partition: int) -> int:
        """Return the first offset."""
        records = self.partitions[partition]
        return records[0].offset if records else self.ends[partition]

    def read(self, partition: int, offset: int, count: int) -> list[MemoryRecord]:
        """Return up to `count` records from `offset` on, which must not be out of range."""
        begin = offset - self.first(partition)
        return self.partitions[partition][begin : begin + count]


class MemoryGroup:
    """A consumer group.

    Partitions move as with the assignor `cooperative-sticky`: the owner releases a partition in a poll, and another
    member takes it afterwards.

    Attributes:
        committed: The committed position of each partition.
        topic_ids: By partition, the id of the topic at the time of the commit.
        owners: The owner of each partition.
        targets: By partition, the member that should own it after the rebalance.
    """

    def __init__(self, topic: MemoryTopic, committed: Positions | None = None) -> None:
        self.topic = topic
        self.committed: Positions = dict(committed or {})
        self.topic_ids: dict[int, int] = {}
        self.members: list[MemorySource] = []
        self.owners: dict[int, MemorySource] = {}
        self.targets: dict[int, MemorySource] = {}

    def add(self, member: "MemorySource") -> None:
        """Add a member, and rebalance."""
        self.members.append(member)
        self.rebalance()

    def remove(self, member: "MemorySource") -> None:
        """Remove a member that has left or whose session has ended, and rebalance."""
        if member in self.members:
            self.members.remove(member)
            self.owners = {p: owner for p, owner in self.owners.items() if owner is not member}
            self.rebalance()

    def rebalance(self) -> None:
        """Spread the partitions evenly. A partition keeps its owner if possible."""
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
        """Return where a new owner starts.

        That is the committed position, or the first record if there is none.
        """
        if partition in self.committed:
            return self.committed[partition]
        return self.topic.first(partition)

    def check_topic(self) -> None:
        """Raise NoValidOffset when no position of this topic is committed.

        A position on another topic of the same name is not valid.
        """
        if not self.committed:
            raise no_committed_offset_error(self.topic.name)
        if not {self.topic.id} >= set(self.topic_ids.values()):
            raise topic_recreated_error(self.topic.name)

    def commit(self, positions: Positions, topic_id: int) -> None:
        """Commit positions on the topic with this id."""
        self.committed.update(positions)
        self.topic_ids.update(dict.fromkeys(positions, topic_id))

    def recreate_topic(self) -> None:
        """Delete the topic and create it again. As in Kafka, this deletes the committed positions."""
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
        self._restricted_to: Collection[int] | None = None
        self._joined = self._paused = False

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener
        self._group.add(self)

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        self._serve_group()
        topic = self._group.topic
        if self._joined and self._topic_id != topic.id:
            raise topic_recreated_error(topic.name)
        rows: list[SourceRecord] = []
        if not self._paused:
            unreadable, read = self.unreadable(), self._read_partitions()
            if unreadable and unreadable.keys() == read:
                raise BrokerUnavailable(next(iter(unreadable.values())))
            for partition in sorted(read - unreadable.keys()):
                rows += self._read(partition, max_records - len(rows))
        if not rows:
            self._sleep(timeout_s)
        return batch_from_records(topic.name, rows)

    def _read_partitions(self) -> set[int]:
        """Return the assigned partitions that `restrict_to` allows."""
        allowed = self._positions if self._restricted_to is None else self._restricted_to
        return self._positions.keys() & set(allowed)

    def _read(self, partition: int, count: int) -> list[SourceRecord]:
        self._pass_gap(partition)
        records = self._group.topic.read(partition, self._positions[partition], count)
        if records:
            self._positions[partition] = records[-1].offset + 1
        return [
            SourceRecord(record.value, record.key, record.timestamp, partition, record.offset) for record in records
        ]

    def _pass_gap(self, partition: int) -> None:
        topic, position = self._group.topic, self._positions[partition]
        if position > topic.ends[partition]:
            raise offset_beyond_end_error(topic.name, partition, position, topic.ends[partition])
        if position < topic.first(partition):
            self._positions[partition] = topic.first(partition)
            self._gaps.append(Gap(topic.name, partition, position, topic.first(partition)))

    def take_gaps(self) -> list[Gap]:
        gaps, self._gaps = self._gaps, []
        return gaps

    def unreadable(self) -> Mapping[int, str]:
        read = self._read_partitions()
        return {partition: why for partition, why in self._group.topic.unreadable.items() if partition in read}

    def _serve_group(self) -> None:
        group, listener = self._group, self._listener
        if listener is None:
            return
        if self not in group.members and self._joined:
            self._drop(self._positions, listener.on_lost)
            self._joined = False
            group.add(self)
        self._drop([p for p in self._positions if group.owners.get(p) is not self], listener.on_lost)
        self._drop([p for p in self._positions if group.targets.get(p) is not self], listener.on_revoked)
        free = [p for p, member in group.targets.items() if member is self and p not in group.owners]
        if free or not self._joined:
            if free:
                group.check_topic()
            self._joined, self._topic_id = True, self._topic_id or group.topic.id
            self._positions.update({p: group.start(p) for p in free})
            group.owners.update(dict.fromkeys(free, self))
            listener.on_assigned(sorted(free))

    def _drop(self, partitions: Iterable[int], callback: Callable[[list[int]], None]) -> None:
        dropped = sorted(partitions)
        if not dropped:
            return
        callback(dropped)
        for partition in dropped:
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

    def source_ids(self, batch: RecordBatch) -> list[bytes]:
        return position_ids(batch)

    def group_metadata(self) -> "MemorySource":
        return self

    def store(self, positions: Mapping[int, int]) -> bool:
        """See tests.support.memory.sinks.MemoryGroupMember."""
        if self._fenced(positions):
            return False
        self._group.commit(dict(positions), self._topic_id)
        return True

    def _fenced(self, positions: Iterable[int]) -> list[int]:
        """Return the partitions among these that this member does not own."""
        return [p for p in positions if self._group.owners.get(p) is not self]

    def committed(self) -> Positions:
        return {p: o for p, o in self._group.committed.items() if p in self._positions}

    def restrict_to(self, partitions: Collection[int] | None) -> None:
        self._restricted_to = partitions

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self, *, leave_group: bool = False) -> None:
        self._listener = None
        self._positions.clear()
        self._group.remove(self)
