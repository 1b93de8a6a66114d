"""Record batches as Kafka stores them (message format v2, https://kafka.apache.org/documentation/#recordbatch)."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import crc32c
import lz4.frame

from headwater.model.record import Headers
from headwater.native import Positions, encode_records

_HEAD: Final = struct.Struct(">qiibI")
"""Base offset, length of what follows the next field, leader epoch, magic, CRC-32C of the rest."""
_BEHIND_LENGTH: Final = 4 + 1 + 4
_REST: Final = struct.Struct(">hiqqqhii")
"""Attributes, last offset's and first and last time's, the producer's id and epoch, first sequence number, count."""
_MAGIC: Final = 2
_PLAIN, _LZ4 = 0, 3
_ACCELERATION: Final = -3
"""Of LZ4: much less CPU than its default for slightly more bytes."""
FRAMING_BYTES: Final = 40
"""A record takes at most so many bytes beside key, value and headers."""


def varint(number: int) -> bytes:
    """A signed number in Kafka's encoding: zigzag, seven bits a byte, the lowest first."""
    left = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


class Producer(NamedTuple):
    """What a broker knows an idempotent producer by."""

    id: int
    epoch: int


class Records(NamedTuple):
    """Columns of the records of one batch: at least one record.

    sizes: of the values, -1 for None. timestamps: in ms since the epoch. headers: of each record. last: if not empty,
    the name of one more header, whose values are `lasts`.
    """

    values: Sequence[bytes | None]
    sizes: Sequence[int]
    keys: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Headers
    last: str = ""
    lasts: Sequence[bytes] | Positions = ()


class Packed(NamedTuple):
    """The records of a batch, encoded and, where that helps, compressed. first_ms, last_ms: their times."""

    body: bytes | memoryview
    attributes: int
    records: int
    first_ms: int
    last_ms: int


def pack(records: Records) -> Packed:
    """All of a batch that does not depend on who sends it when."""
    values, sizes, keys, times = records.values, records.sizes, records.keys, records.timestamps
    body, attributes = encode_records(values, sizes, keys, times, _headers(records), records.lasts), _PLAIN
    packed = lz4.frame.compress(
        body,
        compression_level=_ACCELERATION,
        block_size=lz4.frame.BLOCKSIZE_MAX256KB,
        block_linked=False,  # the brokers' decoder reads no other blocks
        store_size=False,
    )
    if len(packed) < len(body):
        body, attributes = packed, _LZ4
    return Packed(body, attributes, len(values), times[0], max(times))


Batch = tuple[bytes, bytes | memoryview]
"""A batch for one partition, in two parts."""


def seal(packed: Packed, producer: Producer, sequence: int) -> Batch:
    """sequence: of its first record, counted by producer and partition."""
    body, attributes, count, first_ms, last_ms = packed
    rest = _REST.pack(attributes, count - 1, first_ms, last_ms, producer.id, producer.epoch, sequence, count)
    checksum = crc32c.crc32c(body, crc32c.crc32c(rest))
    return _HEAD.pack(0, _BEHIND_LENGTH + len(rest) + len(body), -1, _MAGIC, checksum) + rest, body


def _headers(records: Records) -> bytes:
    """Those that are the same for each record; with `last`, up to its value."""
    count = len(records.headers) + bool(records.last)
    common = b"".join(_text(name.encode()) + _text(value) for name, value in records.headers)
    return varint(count) + common + (_text(records.last.encode()) if records.last else b"")


def _text(text: bytes) -> bytes:
    return varint(len(text)) + text
