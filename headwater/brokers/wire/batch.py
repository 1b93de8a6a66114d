"""Record batches as Kafka stores them (message format v2, https://kafka.apache.org/documentation/#recordbatch)."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import crc32c
import lz4.frame
import numpy as np

from headwater.brokers.wire.protocol import unsigned_varint
from headwater.model.record import Headers
from headwater.native import Portion, encode_records

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
    """VARINT or VARLONG: a signed number, zigzag."""
    return unsigned_varint((number << 1) ^ (number >> 63))


class Producer(NamedTuple):
    """What a broker knows an idempotent producer by."""

    id: int
    epoch: int


class Packed(NamedTuple):
    """The records of a batch, encoded and, where that helps, compressed. first_ms, last_ms: their times."""

    body: bytes | memoryview
    attributes: int
    records: int
    first_ms: int
    last_ms: int


def pack(portions: Sequence[Portion], headers: Headers, last: str = "") -> Packed:
    """All of a batch that does not depend on who sends it when. headers: of each record. last: the name of one more,
    whose values are the portions' tails.
    """
    body, attributes = encode_records(portions, _headers(headers, last)), _PLAIN
    packed = lz4.frame.compress(
        body,
        compression_level=_ACCELERATION,
        block_size=lz4.frame.BLOCKSIZE_MAX256KB,
        block_linked=False,  # the brokers' decoder reads no other blocks
        store_size=False,
    )
    if len(packed) < len(body):
        body, attributes = packed, _LZ4
    times = [np.frombuffer(portion.times, np.int64)[np.frombuffer(portion.rows, np.int32)] for portion in portions]
    return Packed(body, attributes, sum(map(len, times)), int(times[0][0]), max(int(each.max()) for each in times))


Batch = tuple[bytes, bytes | memoryview]
"""A batch for one partition, in two parts."""


def seal(packed: Packed, producer: Producer, sequence: int) -> Batch:
    """sequence: of its first record, counted by producer and partition."""
    body, attributes, count, first_ms, last_ms = packed
    rest = _REST.pack(attributes, count - 1, first_ms, last_ms, producer.id, producer.epoch, sequence, count)
    checksum = crc32c.crc32c(body, crc32c.crc32c(rest))
    return _HEAD.pack(0, _BEHIND_LENGTH + len(rest) + len(body), -1, _MAGIC, checksum) + rest, body


def _headers(headers: Headers, last: str) -> bytes:
    """Those that are the same for each record; with `last`, up to its value."""
    common = b"".join(_text(name.encode()) + _text(value) for name, value in headers)
    return varint(len(headers) + bool(last)) + common + (_text(last.encode()) if last else b"")


def _text(text: bytes) -> bytes:
    return varint(len(text)) + text
