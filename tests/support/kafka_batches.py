"""Record batches by another implementation of the format, and changed as a broker or a fault would."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from headwater.brokers.wire import batch as wire
from headwater.brokers.wire.fetch import Aborted
from headwater.brokers.wire.reading import Batch, batch, visible
from headwater.model.record import Headers
from headwater.native import Scanned, scan_records

ReadHeaders = Headers | list[tuple[str, bytes | None]]
Read = tuple[bytes | None, bytes | None, int, ReadHeaders]

HEAD_SIZE = 61
CRC_AT, CHECKED_FROM = 17, 21
TRANSACTIONAL, CONTROL, APPEND_TIME = 1 << 4, 1 << 5, 1 << 3
ABORT, COMMIT = 0, 1
_FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "latest_ms": (35, ">q"),
    "producer_id": (43, ">q"),
    "count": (57, ">i"),
}


class Row(NamedTuple):
    """One record. delta: of its offset to the batch's base."""

    delta: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def build(rows: Sequence[Row], codec: int = 0, **fields: int) -> bytes:
    """A batch of records; at least one. fields: see `changed`."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for row in rows:
        assert builder.append(row.delta, row.time, row.key, row.value, [*row.headers])
    return changed(bytes(builder.build()), None, **fields)


def marker(base_offset: int, producer_id: int, kind: int) -> bytes:
    """What a broker writes where a transaction ends."""
    row = Row(0, 5, struct.pack(">hh", 0, kind), b"\0\0\0\0\0\0")
    attributes = TRANSACTIONAL | CONTROL
    return build([row], base_offset=base_offset, producer_id=producer_id, attributes=attributes)


def changed(batch: bytes, body: bytes | None = None, **fields: int) -> bytes:
    """A batch with other fields of its head, or another body; its checksum is right."""
    new = bytearray(batch if body is None else batch[:HEAD_SIZE] + body)
    if body is not None:
        fields = {"length": len(new) - 12, **fields}
    for name, value in fields.items():
        at, kind = _FIELDS[name]
        struct.pack_into(kind, new, at, value)
    struct.pack_into(">I", new, CRC_AT, crc32c.crc32c(new[CHECKED_FROM:]))
    return bytes(new)


def rows_of(body: bytes | memoryview, columns: Scanned) -> list[tuple[Any, ...]]:
    """Offset, time, key and value of each record. Fails the test when one is outside of the body."""
    keys = texts(body, columns.key_starts, columns.key_sizes)
    values = texts(body, columns.value_starts, columns.value_sizes)
    return [*zip(columns.offsets, columns.times, keys, values, strict=True)]


def texts(body: bytes | memoryview, starts: Sequence[int], sizes: Sequence[int]) -> list[bytes | None]:
    """Those of a column. Fails the test when one is outside of the body."""
    for start, size in zip(starts, sizes, strict=True):
        assert size >= -1
        assert 0 <= start <= start + max(size, 0) <= len(body)
    return [None if size < 0 else bytes(body[at : at + size]) for at, size in zip(starts, sizes, strict=True)]


def read(batch: wire.Batch) -> list[Read]:
    """Value, key, time and headers of each record, as the other implementation reads them."""
    found = MemoryRecords(b"".join(batch)).next_batch()
    assert found.validate_crc()
    return [(record.value, record.key, record.timestamp, [*record.headers]) for record in found]


def committed(records: memoryview, aborted: Sequence[Aborted], offset: int) -> Iterator[Batch]:
    """Each batch of an answer with its records from an offset on that are to be seen, perhaps none."""
    for head, body in visible(records, aborted):
        yield Batch(head, b"", scan_records(b"", 0, 0, 0)) if body is None else batch(head, body, offset)
