"""Messages of a queue as records of partitions: numbered, kept until they are committed, and repeats left out.

A queue like Pub/Sub has neither partitions nor offsets. A message goes to the partition that its ordering key hashes
to, and gets the next offset there, so messages of one key keep their order. Offsets belong to this worker alone:
another one gives a message that comes again another number. What names a record for readers is its message id.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import xxhash

from headwater.errors import WorkerError
from headwater.model.record import RecordBatch, Row, batch_of
from headwater.model.stream import STREAM_PARTITIONS
from headwater.sources.base import Positions

PARTITIONS: Final = range(STREAM_PARTITIONS)
REMEMBERED: Final = 100_000
"""How many messages back repeats are known."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class Message:
    """A message as it came. ack_id: what acknowledges it; another one whenever it comes again.

    key: the record's natural key, if it has one. timestamp: of the publication, ms since the epoch.
    """

    id: str
    ack_id: str
    value: bytes
    key: bytes | None
    ordering_key: str
    timestamp: int

    @property
    def partition(self) -> int:
        """Without an ordering key: by its id, so that it comes to the same one again."""
        return xxhash.xxh3_64_intdigest((self.ordering_key or self.id).encode()) % len(PARTITIONS)

    @property
    def output_key(self) -> bytes | None:
        """The key of its record: the natural key, or else the ordering key, if it has one."""
        return self.key or self.ordering_key.encode() or None


class Recent(Generic[K, V]):
    """The newest entries of a mapping, REMEMBERED of them."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()

    def put(self, key: K, value: V) -> V | None:
        """Set an entry; what was there before."""
        before = self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > REMEMBERED:
            self._entries.popitem(last=False)
        return before

    def __contains__(self, key: K) -> bool:
        return key in self._entries


class Unacknowledged:
    """Not thread-safe. count, size: of the messages that are kept, and their bytes.

    first: the first offset of every partition; above all that an earlier worker gave, so that counts of both add up.
    deduplicate: Whether `take` refuses a message that equals the last one of its natural key. That takes a queue that
    no other worker reads: another worker could have read a message that came between the two.
    """

    def __init__(
        self, topic: str, first: Callable[[], int] = lambda: time.time_ns() // 1000, *, deduplicate: bool = False
    ) -> None:
        self._topic = topic
        self._deduplicate = deduplicate
        at = first()
        self._kept: dict[int, dict[int, Message]] = {p: {} for p in PARTITIONS}
        self._next: Positions = dict.fromkeys(PARTITIONS, at)
        self._read: Positions = dict.fromkeys(PARTITIONS, at)
        self._committed: Positions = dict.fromkeys(PARTITIONS, at)
        self._by_id: dict[str, Message] = {}
        self._done = Recent[str, None]()
        self._values = Recent[bytes, bytes]()
        self._turn = 0
        self.size = 0

    @property
    def count(self) -> int:
        return len(self._by_id)

    @property
    def unread(self) -> bool:
        """True when `read` would give a record."""
        return self._read != self._next

    def take(self, message: Message) -> bool:
        """Keep a message. False when the message must be acknowledged at once, without a record.

        Pub/Sub redelivers a message with the same id. A message that is kept is redelivered after the end of its lease:
        its new ack_id is the one that counts. A message that was committed is redelivered when its acknowledgement was
        lost. Two messages with equal content have two ids: both are kept, unless `deduplicate` is set.
        """
        kept = self._by_id.get(message.id)
        if kept is not None:
            kept.ack_id = message.ack_id
            return True
        if message.id in self._done or self._equals_last(message):
            return False
        partition = message.partition
        self._kept[partition][self._next[partition]] = message
        self._next[partition] += 1
        self._by_id[message.id] = message
        self.size += len(message.value)
        return True

    def _equals_last(self, message: Message) -> bool:
        """Whether the last message of the same natural key had the same bytes, and is dropped for that."""
        if message.key is None or not self._deduplicate:
            return False
        digest = xxhash.xxh3_128_digest(message.value)
        return self._values.put(message.key, digest) == digest

    def read(self, max_records: int, max_bytes: int) -> RecordBatch:
        """The next records, in order per partition. Partitions take turns to come first."""
        rows, size = list[Row](), 0
        for step in PARTITIONS:
            partition = (self._turn + step) % len(PARTITIONS)
            offset, kept = self._read[partition], self._kept[partition]
            while offset < self._next[partition] and len(rows) < max_records and (size < max_bytes or not rows):
                message = kept[offset]
                rows.append(Row(message.value, message.output_key, message.timestamp, partition, offset))
                size += len(message.value)
                offset += 1
            self._read[partition] = offset
        self._turn += 1
        return batch_of(self._topic, rows)

    def seek(self, positions: Positions) -> None:
        """Read on from there. Raises WorkerError when that is committed."""
        if any(not self._committed[p] <= offset <= self._next[p] for p, offset in positions.items()):
            raise WorkerError("These records are acknowledged; they can't be read again.")
        self._read.update(positions)

    def commit(self, positions: Positions) -> list[str]:
        """Forget what is before these positions; what acknowledges it."""
        done = [
            self._kept[partition].pop(offset)
            for partition, position in positions.items()
            for offset in range(self._committed[partition], position)
        ]
        for message in done:
            del self._by_id[message.id]
            self._done.put(message.id, None)
            self.size -= len(message.value)
        self._committed.update({p: max(position, self._committed[p]) for p, position in positions.items()})
        return [message.ack_id for message in done]

    def committed(self) -> Positions:
        """The position behind the last commit, of every partition."""
        return dict(self._committed)

    def ack_ids(self) -> list[str]:
        """Of all messages that are kept, in order per partition."""
        return [message.ack_id for kept in self._kept.values() for message in kept.values()]

    def names(self, partitions: Sequence[int], offsets: Sequence[int]) -> Iterator[bytes]:
        """The message ids of records that are kept."""
        return (self._kept[p][offset].id.encode() for p, offset in zip(partitions, offsets, strict=True))
