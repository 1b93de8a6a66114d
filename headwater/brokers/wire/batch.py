"""Record batches as Kafka stores them (message format v2, https://kafka.apache.org/documentation/#recordbatch)."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import crc32c
import lz4.frame

from headwater.model.record import Headers

_HEAD: Final = struct.Struct(">qiibI")
"""Base offset, length of what follows the next field, leader epoch, magic, CRC-32C of the rest."""
_BEHIND_LENGTH: Final = 4 + 1 + 4
_REST: Final = struct.Struct(">hiqqqhii")
"""Attributes, last offset's and first and last time's, the producer's id and epoch, first sequence number, count."""
_MAGIC: Final = 2
_PLAIN, _LZ4 = 0, 3
_ACCELERATION: Final = -3
"""Of LZ4: 40 % less CPU than the default, for 3 % more bytes."""
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


_VARINTS: Final = [varint(number) for number in range(1 << 12)]


def _varints(numbers: Sequence[int]) -> list[bytes]:
    if min(numbers) >= 0 and max(numbers) < len(_VARINTS):
        return [*map(_VARINTS.__getitem__, numbers)]
    return [*map(varint, numbers)]


class Producer(NamedTuple):
    """What a broker knows an idempotent producer by."""

    id: int
    epoch: int


class Records(NamedTuple):
    """Columns of the records of one batch: at least one record.

    timestamps: in ms since the epoch. headers: of each record. last: if not empty, the name of one more header, whose
    values are `lasts`.
    """

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Headers
    last: str = ""
    lasts: Sequence[bytes] = ()


def encode(records: Records, producer: Producer, sequence: int) -> bytes:
    """A batch for one partition. sequence: of its first record, counted by producer and partition."""
    body, attributes = _body(records), _PLAIN
    packed = lz4.frame.compress(
        body,
        compression_level=_ACCELERATION,
        block_size=lz4.frame.BLOCKSIZE_MAX256KB,
        block_linked=False,  # the brokers' decoder reads no other blocks
        store_size=False,
    )
    if len(packed) < len(body):
        body, attributes = packed, _LZ4
    count, times = len(records.values), records.timestamps
    rest = _REST.pack(attributes, count - 1, times[0], max(times), producer.id, producer.epoch, sequence, count) + body
    return _HEAD.pack(0, _BEHIND_LENGTH + len(rest), -1, _MAGIC, crc32c.crc32c(rest)) + rest


def _body(records: Records) -> bytes:
    """The records: each its length, then attributes, time, offset, key, value and headers. By columns: one record
    after the other takes twice as long.
    """
    values, first, count = records.values, records.timestamps[0], len(records.values)
    value_sizes = _sizes(values)
    heads = [
        b"\0%b%b%b%b%b" % parts
        for parts in zip(
            _varints([at - first for at in records.timestamps]),
            _varints(range(count)),
            _varints(_sizes(records.keys)),
            [key or b"" for key in records.keys],
            _varints(value_sizes),
            strict=True,
        )
    ]
    tails = _tails(records)
    sizes = [
        head + max(value, 0) + tail
        for head, value, tail in zip(map(len, heads), value_sizes, map(len, tails), strict=True)
    ]
    pieces: list[bytes] = [b""] * (4 * count)
    pieces[::4] = _varints(sizes)
    pieces[1::4] = heads
    pieces[2::4] = [value or b"" for value in values]
    pieces[3::4] = tails
    return b"".join(pieces)


def _sizes(texts: Sequence[bytes | None]) -> list[int]:
    """The length of each, -1 for None."""
    if None in texts:
        return [-1 if text is None else len(text) for text in texts]
    return [*map(len, texts)]  # type: ignore[arg-type]  # none is None


def _tails(records: Records) -> list[bytes]:
    """The headers of each record."""
    common = b"".join(_text(name.encode()) + _text(value) for name, value in records.headers)
    if not records.last:
        return [varint(len(records.headers)) + common] * len(records.values)
    common = varint(len(records.headers) + 1) + common + _text(records.last.encode())
    sizes = [*map(len, records.lasts)]
    begins = {size: common + varint(size) for size in {*sizes}}
    return [begins[size] + value for size, value in zip(sizes, records.lasts, strict=True)]


def _text(text: bytes) -> bytes:
    return varint(len(text)) + text
