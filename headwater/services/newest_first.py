"""Reads the records of a topic from the newest to the oldest."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace

from headwater.brokers.topic_history import LogRecord, OffsetRange, TopicHistory, record_bytes

MIN_FIRST_CHUNK = 16
"""How many offsets of a partition are read at first, at least."""
MAX_FIRST_CHUNK = 32
"""How many offsets of a partition are read at first, at most.

The number is small, because the Kafka client discards the records that exceed `max_chunk_bytes`, and fetches them again
later.
"""
GROWTH = 4
"""The next chunk has at most this many times the offsets of the last chunk."""
MAX_CHUNK = 4_096
"""The maximum number of offsets of a partition that are read at once.

After a chunk without records, the next one may be larger.
"""
MAX_CHUNK_BYTES = 4 << 20
"""How many bytes of a partition are kept in memory."""
MAX_READ_BYTES = 32 << 20
"""How many bytes of all partitions are kept in memory."""


def max_chunk_bytes(partitions: int) -> int:
    """Return how many bytes of each partition may be kept in memory.

    Args:
        partitions: The number of partitions that are read.
    """
    return min(MAX_CHUNK_BYTES, MAX_READ_BYTES // max(1, partitions))


def first_chunk_size(count: int, partitions: int) -> int:
    """Return how many offsets of each partition are read at first, to find `count` records."""
    return min(MAX_FIRST_CHUNK, max(MIN_FIRST_CHUNK, count // partitions))


def next_chunk_size(size: int, offsets: int, records: Sequence[LogRecord], max_bytes: int, max_size: int) -> int:
    """Return how many offsets of a partition are read next.

    Args:
        size: The size of the last chunk.
        offsets: How many offsets of the last chunk were read; fewer than `size` when their records were too large.
        records: The records at these offsets.
        max_bytes: How many bytes the records of a chunk should have at most.
        max_size: The maximum size. Where offsets have no records, the size grows beyond it, so that a few reads pass a
            long gap.
    """
    if not records:
        return 2 * size
    expected = offsets * max_bytes // max(1, sum(map(record_bytes, records)))
    return max(1, min(GROWTH * size, max_size, expected))


class _PartitionReader:
    """Plans the reads of one partition, backwards, and buffers their records.

    Attributes:
        position: The records before this offset are not returned yet.
        unread_end: The records before this offset are not read yet.
    """

    def __init__(self, start: int, position: int, first_chunk: int) -> None:
        self._start = start
        self.position = self.unread_end = position
        self._chunk = first_chunk
        self._records: list[LogRecord] = []

    @property
    def newest(self) -> LogRecord | None:
        """The newest record that was read and is not returned yet."""
        return self._records[-1] if self._records else None

    def next_range(self) -> OffsetRange:
        """Return the offsets of the next chunk."""
        return OffsetRange(max(self._start, self.unread_end - self._chunk), self.unread_end)

    def add(self, start: int, records: list[LogRecord], max_bytes: int) -> None:
        """Add the records of the chunk that begins at `start`.

        The size of the next chunk is chosen so that its records have about `max_bytes` in total.
        """
        self._chunk = next_chunk_size(self._chunk, self.unread_end - start, records, max_bytes, MAX_CHUNK)
        self._records, self.unread_end = records, start
        if not records:  # the offsets of the chunk belong to control records and aborted transactions
            self.position = start

    def pop(self) -> LogRecord:
        """Return and remove the newest record."""
        record = self._records.pop()
        self.position = record.offset
        return record

    def is_exhausted(self) -> bool:
        """Return whether all records of the partition are returned."""
        return not self._records and self.unread_end <= self._start


class NewestFirst:
    """Iterates over the records of a topic, from the newest to the oldest.

    The records of a partition are in the reverse order of their offsets. Of several partitions, the record with the
    latest timestamp comes first.

    Args:
        history: Reads the records.
        topic: The topic.
        ends: The offsets, by partition, before which the iteration begins.
        ranges: The offsets that the topic has.
        first_chunk: How many offsets of a partition are read at first; None means MAX_FIRST_CHUNK.
    """

    def __init__(
        self,
        history: TopicHistory,
        topic: str,
        ends: Mapping[int, int],
        ranges: Mapping[int, OffsetRange],
        first_chunk: int | None = None,
    ) -> None:
        self._history = history
        self._topic = topic
        self._max_bytes = max_chunk_bytes(len(ranges))
        self._readers = {
            partition: _PartitionReader(
                offsets.start,
                min(max(ends.get(partition, offsets.start), offsets.start), offsets.end),
                first_chunk or MAX_FIRST_CHUNK,
            )
            for partition, offsets in ranges.items()
        }
        self._newest: list[tuple[int, int]] = []
        """A heap of the partitions whose newest record is known: its negative timestamp, and the partition."""
        self._unknown = {partition for partition, reader in self._readers.items() if not reader.is_exhausted()}
        """The partitions of which a chunk must be read before the newest record is known."""

    def __iter__(self) -> Iterator[LogRecord]:
        return self

    def __next__(self) -> LogRecord:
        if self.peek() is None:
            raise StopIteration
        partition = self._newest[0][1]
        reader = self._readers[partition]
        record = reader.pop()
        if (newest := reader.newest) is not None:
            heapreplace(self._newest, (-newest.timestamp, partition))
        else:
            heappop(self._newest)
            if not reader.is_exhausted():
                self._unknown.add(partition)
        return record

    def peek(self) -> LogRecord | None:
        """Return the next record without removing it; None when there is none."""
        while self._unknown:
            self._read_chunks()
        return self._readers[self._newest[0][1]].newest if self._newest else None

    def _read_chunks(self) -> None:
        """Read a chunk of each partition whose newest record is not known."""
        wanted = {partition: self._readers[partition].next_range() for partition in self._unknown}
        for partition, chunk in self._history.read(self._topic, wanted, self._max_bytes).items():
            reader = self._readers[partition]
            reader.add(chunk.start, list(chunk.records), self._max_bytes)
            if (newest := reader.newest) is not None:
                heappush(self._newest, (-newest.timestamp, partition))
            if newest is not None or reader.is_exhausted():
                self._unknown.discard(partition)

    def positions(self) -> dict[int, int]:
        """Return the offsets, by partition, before which the iteration continues."""
        return {partition: reader.position for partition, reader in self._readers.items()}
