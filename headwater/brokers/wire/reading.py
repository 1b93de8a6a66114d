"""From the bytes of a log to the records that a reader of committed ones may see.

Batches: https://kafka.apache.org/documentation/#recordbatch. Which of them are hidden: as Kafka's own consumer decides
it (org.apache.kafka.clients.consumer.internals.CompletedFetch).
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import crc32c
import numpy as np

from headwater.brokers.wire.compression import decompress
from headwater.brokers.wire.fetch import Aborted
from headwater.native import Column, Scanned, scan_records

_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length of what follows, leader epoch, magic, CRC-32C of what follows, attributes, last offset's delta,
first and latest time, the producer's id and epoch, first sequence number, count."""
_LENGTH_END: Final = 8 + 4
_MAGIC_AT: Final = _LENGTH_END + 4
_CHECKED_FROM: Final = _MAGIC_AT + 1 + 4
_MAGIC: Final = 2
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0b111, 1 << 3, 1 << 4, 1 << 5
_NO_TIME: Final = -1
_NO_PRODUCER: Final = -1
_CONTROL_TYPE: Final = struct.Struct(">hh")
"""Version and type: the key of a control record."""
_ABORT: Final = 0


class UnreadableBatch(ValueError):
    """A batch that is corrupt, or in a format that is not read. offset: its first."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"the batch at offset {offset} can't be read: {why}")
        self.offset = offset


class Head(NamedTuple):
    """What a batch says of its records. Times are in ms since the epoch, -1 for none; producer_id is -1 for none.

    record_count: of those that are there; compaction leaves fewer of them than offsets.
    """

    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    first_ms: int
    latest_ms: int
    producer_id: int
    record_count: int

    @property
    def codec(self) -> int:
        """Of compression.py, or 0 for none."""
        return self.attributes & _CODEC

    @property
    def append_ms(self) -> int:
        """When the broker appended them, if this is the time of the records; else -1."""
        return self.latest_ms if self.attributes & _APPEND_TIME else _NO_TIME

    @property
    def transactional(self) -> bool:
        """Whether they belong to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether they are marks of the broker, not records of a user."""
        return bool(self.attributes & _CONTROL)

    @property
    def last_offset(self) -> int:
        """Of the last record that was ever in it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the log goes on behind it."""
        return self.last_offset + 1


class Batch(NamedTuple):
    """Columns of records, and the body that their places are in: not compressed (any more), with headers and all."""

    head: Head
    body: bytes | memoryview
    columns: Scanned


def visible(records: memoryview, aborted: Sequence[Aborted]) -> Iterator[tuple[Head, memoryview | None]]:
    """All complete batches (see `heads`); None in place of bodies of which a reader of committed records sees nothing.

    aborted: of the answer that the records came with. Raises UnreadableBatch when it comes to one.
    """
    hidden = _Aborted(aborted)
    for head, body in heads(records):
        yield head, None if hidden.hides(head, body) or head.control else body


def heads(records: memoryview) -> Iterator[tuple[Head, memoryview]]:
    """All batches that are complete: heads, and bodies as they were sent. They are views of `records`.

    A broker cuts the last one off where the answer is full. Raises UnreadableBatch for the first that is corrupt, of
    message format v0 or v1, or incomplete though it is the first, which brokers send in full (KIP-74).
    """
    at = 0
    while at < len(records):
        end = _end(records, at)
        if end > len(records):
            if at:
                return
            raise UnreadableBatch(_offset(records, at), "it is not complete")
        yield _head(records, at, end), records[at + _HEAD.size : end]
        at = end


def batch(head: Head, body: memoryview, offset: int = 0) -> Batch:
    """The records of a batch from an offset on. Raises UnreadableBatch."""
    try:
        plain = decompress(head.codec, body) if head.codec and body else body
        columns = scan_records(plain, head.record_count, head.base_offset, head.first_ms, head.append_ms)
        columns = columns._replace(offsets=_ascending(head, columns.offsets))
    except ValueError as error:
        raise UnreadableBatch(head.base_offset, str(error)) from error
    return _from(offset, Batch(head, plain, columns))


def _ascending(head: Head, offsets: Column) -> Column:
    """The offsets of a batch's records. Brokers don't look at what a producer wrote there: of a batch that has all its
    records they follow from its first one.
    """
    if not offsets:
        return offsets
    ascend = (np.diff(np.frombuffer(offsets, np.int64)) > 0).all()
    if ascend and head.base_offset <= offsets[0] and offsets[-1] <= head.last_offset:
        return offsets
    if len(offsets) != head.last_offset_delta + 1:
        raise ValueError("the offsets of its records don't ascend from its first to its last")
    return Column("q", range(head.base_offset, head.next_offset))


def _end(records: memoryview, at: int) -> int:
    """Where the batch ends that begins at `at`: behind `records` when it is not complete."""
    start = records[at : at + _CHECKED_FROM]
    if len(start) > _MAGIC_AT and start[_MAGIC_AT] != _MAGIC:
        raise UnreadableBatch(_offset(records, at), _foreign(start[_MAGIC_AT]))
    if len(records) - at < _HEAD.size:
        return len(records) + 1
    end = at + _LENGTH_END + int.from_bytes(start[_LENGTH_END - 4 : _LENGTH_END], "big", signed=True)
    if end < at + _HEAD.size:
        raise UnreadableBatch(_offset(records, at), "its length is less than that of its head")
    return end


def _head(records: memoryview, at: int, end: int) -> Head:
    offset, _, epoch, _, checksum, attributes, delta, first, latest, producer, _, _, count = _HEAD.unpack_from(
        records, at
    )
    if crc32c.crc32c(records[at + _CHECKED_FROM : end]) != checksum:
        raise UnreadableBatch(offset, "it is corrupt, its checksum is another")
    if delta < 0 or offset < 0:  # a reader would go back, again and again
        raise UnreadableBatch(offset, "its offsets are negative, or its last one is before its first")
    return Head(offset, epoch, attributes, delta, first, latest, producer, count)


def _offset(records: memoryview, at: int) -> int:
    """The base offset at `at`, as far as it is there."""
    return int.from_bytes(records[at : at + 8], "big", signed=True)


def _foreign(magic: int) -> str:
    if magic > _MAGIC:
        return f"it has message format v{magic}, which is not known"
    return (
        f"it has message format v{magic}, which no Kafka since 0.11 writes. Copy the topic's records into a new topic "
        "with a newer client"
    )


class _Aborted:
    """The aborted transactions of one answer, as its batches pass."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._to_come = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._open: set[int] = set()

    def hides(self, head: Head, body: memoryview) -> bool:
        """Whether a batch belongs to one of them. To be asked for each batch, in their order."""
        if head.producer_id == _NO_PRODUCER:
            return False
        while self._to_come and self._to_come[-1].first_offset <= head.last_offset:
            self._open.add(self._to_come.pop().producer_id)
        if head.control and head.producer_id in self._open and _aborts(head, body):
            self._open.discard(head.producer_id)
        return head.transactional and head.producer_id in self._open


def _aborts(head: Head, body: memoryview) -> bool:
    """Whether a control batch ends a transaction without its records."""
    _, plain, columns = batch(head, body)
    if not head.record_count or columns.key_sizes[0] < _CONTROL_TYPE.size:
        return False
    _, kind = _CONTROL_TYPE.unpack_from(plain, columns.key_starts[0])
    return bool(kind == _ABORT)


def _from(offset: int, found: Batch) -> Batch:
    """Its records from an offset on. Their offsets ascend."""
    if offset <= found.head.base_offset:
        return found
    first = bisect_left(found.columns.offsets, offset)
    return found._replace(columns=Scanned(*(column[first:] for column in found.columns)))
