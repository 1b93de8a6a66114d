"""Reads the records of a topic from given offsets to the newest."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice

from headwater.brokers.topic_history import LogRecord, OffsetRange, TopicHistory
from headwater.model.timestamps import ceil_epoch_ms
from headwater.services.newest_first import max_chunk_bytes, next_chunk_size

MAX_CHUNK = 1_024
"""The maximum number of offsets of a partition that are read at once.

After a chunk without records, the next one may be larger.
"""
MAX_SCANNED = 50_000
"""How many records are read at most to find the records from a time on."""


class _PartitionReader:
    """Plans the reads of one partition, forwards, and buffers their records."""

    def __init__(self, offsets: OffsetRange, first_chunk: int) -> None:
        self._unread, self._end = offsets
        self._chunk = first_chunk
        self._records: list[LogRecord] = []

    @property
    def oldest(self) -> LogRecord | None:
        """The oldest record that was read and is not returned yet."""
        return self._records[-1] if self._records else None

    def needs_chunk(self) -> bool:
        """Return whether a chunk must be read before the oldest record is known."""
        return not self._records and self._unread < self._end

    def next_range(self) -> OffsetRange:
        """Return the offsets of the next chunk."""
        return OffsetRange(self._unread, min(self._end, self._unread + self._chunk))

    def add(self, start: int, records: list[LogRecord], max_bytes: int) -> None:
        """Add the records of the chunk, which are complete from `start` on.

        The first records of a chunk are missing when its records are too large. The chunk is then read again in smaller
        parts.
        """
        offsets = self.next_range()
        if start > offsets.start:
            self._chunk = max(1, (offsets.end - offsets.start) // 8)
            return
        size = offsets.end - offsets.start
        self._chunk = next_chunk_size(self._chunk, size, records, max_bytes, MAX_CHUNK)
        self._records, self._unread = records[::-1], offsets.end

    def pop(self) -> LogRecord:
        """Return and remove the oldest record."""
        return self._records.pop()


class OldestFirst:
    """Iterates over the records of a topic, from the oldest to the newest.

    The records of a partition are in the order of their offsets. Of several partitions, the record with the earliest
    timestamp comes first.

    Args:
        history: Reads the records.
        topic: The topic.
        ranges: The offsets of each partition.
        first_chunk: How many offsets of a partition are read at first.
    """

    def __init__(self, history: TopicHistory, topic: str, ranges: Mapping[int, OffsetRange], first_chunk: int) -> None:
        self._history = history
        self._topic = topic
        self._max_bytes = max_chunk_bytes(len(ranges))
        self._readers = {partition: _PartitionReader(offsets, first_chunk) for partition, offsets in ranges.items()}

    def __iter__(self) -> Iterator[LogRecord]:
        return self

    def __next__(self) -> LogRecord:
        while wanted := {p: reader.next_range() for p, reader in self._readers.items() if reader.needs_chunk()}:
            for partition, chunk in self._history.read(self._topic, wanted, self._max_bytes).items():
                self._readers[partition].add(chunk.start, list(chunk.records), self._max_bytes)
        candidates = ((reader.oldest, reader) for reader in self._readers.values())
        known = [(record.timestamp, record.partition, reader) for record, reader in candidates if record is not None]
        if not known:
            raise StopIteration
        return min(known, key=lambda candidate: candidate[:2])[2].pop()


def records_since(
    history: TopicHistory, topic: str, ranges: Mapping[int, OffsetRange], since: datetime, first_chunk: int
) -> Iterator[LogRecord]:
    """Return the records from a time on, from the oldest to the newest.

    The timestamps in a partition need not ascend, for example not in outputs after a rewind. Records that are older
    than `since` but follow the first match are skipped; they count towards MAX_SCANNED.
    """
    since_ms = ceil_epoch_ms(since)
    starts = history.offsets_since(topic, since_ms)
    # Records may have been appended since the ranges were read.
    unread = {p: OffsetRange(start, ranges[p].end) for p, start in starts.items() if p in ranges}
    scanned = islice(OldestFirst(history, topic, unread, first_chunk), MAX_SCANNED)
    return (record for record in scanned if record.timestamp >= since_ms)
