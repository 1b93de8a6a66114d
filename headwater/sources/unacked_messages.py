"""Converts messages of Pub/Sub to records, and keeps the messages until a commit.

Repeated messages are dropped. A subscription has neither partitions nor offsets. A message gets the partition that its
ordering key hashes to, and the next offset of this partition, so the messages of one key keep their order.
Offsets are valid in this worker only: another worker gives a redelivered message another offset. The source id of a
record is its message id.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import xxhash

from headwater.errors import WorkerError
from headwater.model.record import RecordBatch, SourceRecord, batch_from_records
from headwater.model.stream import STREAM_PARTITIONS
from headwater.sources.base import Positions

PARTITIONS: Final = range(STREAM_PARTITIONS)
MAX_REMEMBERED: Final = 100_000
"""How many ids of committed messages, and how many natural keys with their last value, are remembered."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class Message:
    """A received message.

    Attributes:
        id: The message id, the same for each delivery.
        ack_id: The id that acknowledges this delivery of the message; each delivery has a new ack id.
        value: The data of the message.
        key: The natural key of the record; None if the record has no natural key.
        ordering_key: The ordering key; empty if the message has none.
        timestamp: When the message was published, in ms since the epoch.
    """

    id: str
    ack_id: str
    value: bytes
    key: bytes | None
    ordering_key: str
    timestamp: int

    @property
    def partition(self) -> int:
        """The partition: the hash of the ordering key, or else of the id.

        A redelivery gets the same partition.
        """
        return xxhash.xxh3_64_intdigest((self.ordering_key or self.id).encode()) % len(PARTITIONS)

    @property
    def record_key(self) -> bytes | None:
        """The key of the record: the natural key, or else the ordering key, or None."""
        return self.key or self.ordering_key.encode() or None


class RecentMap(Generic[K, V]):
    """A mapping that keeps its newest MAX_REMEMBERED entries."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()

    def put(self, key: K, value: V) -> V | None:
        """Set an entry, and return the previous value."""
        previous = self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > MAX_REMEMBERED:
            self._entries.popitem(last=False)
        return previous

    def __contains__(self, key: K) -> bool:
        return key in self._entries


class UnackedMessages:
    """The messages that were received and whose records are not committed yet. Not thread-safe.

    Args:
        topic: The topic name of the record batches.
        first_offset: Returns the first offset of each partition. It must be above all offsets of earlier workers,
            because metrics count each offset once.
        deduplicate: Whether `add` drops a message that equals the previous message with the same natural key. Only for
            a subscription with a single reader: another worker could have read a message between these two.

    Attributes:
        size: The bytes of the messages.
    """

    def __init__(
        self,
        topic: str,
        first_offset: Callable[[], int] = lambda: time.time_ns() // 1000,
        *,
        deduplicate: bool = False,
    ) -> None:
        self._topic = topic
        self._deduplicate = deduplicate
        first = first_offset()
        self._messages: dict[int, dict[int, Message]] = {p: {} for p in PARTITIONS}
        """The uncommitted messages by partition and offset."""
        self._ends: Positions = dict.fromkeys(PARTITIONS, first)
        """By partition, the offset that the next message gets."""
        self._positions: Positions = dict.fromkeys(PARTITIONS, first)
        """By partition, the next offset to read."""
        self._committed: Positions = dict.fromkeys(PARTITIONS, first)
        self._by_id: dict[str, Message] = {}
        self._committed_ids = RecentMap[str, None]()
        self._last_values = RecentMap[bytes, bytes]()
        """By natural key, the hash of the last value."""
        self._first_partition = 0
        self.size = 0

    @property
    def count(self) -> int:
        """The number of messages."""
        return len(self._by_id)

    @property
    def has_unread(self) -> bool:
        """Whether `read` would return a record."""
        return self._positions != self._ends

    def add(self, message: Message) -> bool:
        """Add a message. Return False when the message must be acknowledged without a record.

        Pub/Sub redelivers a message with the same id. It redelivers an uncommitted message after its ack deadline: then
        the new ack id replaces the old one, and no record is added. It redelivers a committed message when the
        acknowledgement was lost: then the result is False. Two messages with equal content have two ids: both become
        records, unless `deduplicate` is set.
        """
        uncommitted = self._by_id.get(message.id)
        if uncommitted is not None:
            uncommitted.ack_id = message.ack_id
            return True
        if message.id in self._committed_ids or self._repeats_last_value(message):
            return False
        partition = message.partition
        self._messages[partition][self._ends[partition]] = message
        self._ends[partition] += 1
        self._by_id[message.id] = message
        self.size += len(message.value)
        return True

    def _repeats_last_value(self, message: Message) -> bool:
        """Return whether the previous message with the same natural key had the same value.

        Remember the value for the next message. Without deduplication, remember nothing and return False.
        """
        if message.key is None or not self._deduplicate:
            return False
        digest = xxhash.xxh3_128_digest(message.value)
        return self._last_values.put(message.key, digest) == digest

    def read(self, max_records: int, max_bytes: int) -> RecordBatch:
        """Return the next records, in order per partition. Each call begins with another partition."""
        records, size = list[SourceRecord](), 0
        for step in PARTITIONS:
            partition = (self._first_partition + step) % len(PARTITIONS)
            offset, messages = self._positions[partition], self._messages[partition]
            while offset < self._ends[partition] and len(records) < max_records and (size < max_bytes or not records):
                message = messages[offset]
                records.append(SourceRecord(message.value, message.record_key, message.timestamp, partition, offset))
                size += len(message.value)
                offset += 1
            self._positions[partition] = offset
        self._first_partition += 1
        return batch_from_records(self._topic, records)

    def seek(self, positions: Positions) -> None:
        """Continue at these positions.

        Raises WorkerError when the record at one of them is committed already.
        """
        if any(not self._committed[p] <= offset <= self._ends[p] for p, offset in positions.items()):
            raise WorkerError(
                "These records are acknowledged, so they can't be read again. This worker ends; a new one continues "
                "after them."
            )
        self._positions.update(positions)

    def commit(self, positions: Positions) -> list[str]:
        """Remove the messages before these positions, and return their ack ids."""
        removed = [
            self._messages[partition].pop(offset)
            for partition, position in positions.items()
            for offset in range(self._committed[partition], position)
        ]
        for message in removed:
            del self._by_id[message.id]
            self._committed_ids.put(message.id, None)
            self.size -= len(message.value)
        self._committed.update({p: max(position, self._committed[p]) for p, position in positions.items()})
        return [message.ack_id for message in removed]

    def committed(self) -> Positions:
        """Return the position after the last commit of each partition."""
        return dict(self._committed)

    def ack_ids(self) -> list[str]:
        """Return the ack ids of all messages, in order per partition."""
        return [message.ack_id for messages in self._messages.values() for message in messages.values()]

    def message_ids(self, partitions: Sequence[int], offsets: Sequence[int]) -> Iterator[bytes]:
        """Yield the message ids of uncommitted records."""
        return (self._messages[p][offset].id.encode() for p, offset in zip(partitions, offsets, strict=True))
