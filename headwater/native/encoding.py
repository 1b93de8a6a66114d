"""Records as Kafka stores them."""

import ctypes
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headwater.native.library import Column, address, address_of, kernel
from headwater.native.texts import Texts

_WIDEST: Final = 100
"""Bytes of the numbers that a record has beside its texts, at most."""


class Positions(NamedTuple):
    """Values "<prefix><offset>/<index>" of a header; columns "q"."""

    prefix: bytes
    offsets: Column
    indexes: Column


class Portion(NamedTuple):
    """Some rows of columns. rows: "i"; times: "q", in ms. tails: the values of one more header, if there is one."""

    rows: Column
    values: Texts
    keys: Texts
    times: Column
    tails: Texts | Positions | None = None


class _Column(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("starts", ctypes.c_void_p), ("sizes", ctypes.c_void_p)]
    owners: tuple[object, ...] = ()
    """What keeps them."""


def encode_records(portions: Sequence[Portion], headers: bytes) -> memoryview:
    """Records of Kafka's message format v2, one portion after the other; at least one record.

    headers: of each record, encoded, their number in front; with tails the number counts them, and their name is
    behind.
    """
    first_ms, number, written = portions[0].times[portions[0].rows[0]], 0, 0
    out = memoryview(bytearray(sum(_room(portion, len(headers)) for portion in portions)))
    for portion in portions:
        written += _encode(portion, number, first_ms, headers, out[written:])
        number += len(portion.rows)
    return out[:written]


def _room(portion: Portion, headers_size: int) -> int:
    """At least what a portion takes."""
    rows, tails = portion.rows, portion.tails
    texts = [portion.values, portion.keys, *([tails] if isinstance(tails, Texts) else [])]
    own = headers_size + _WIDEST + (len(tails.prefix) if isinstance(tails, Positions) else 0)
    return sum(column.size_of(rows) for column in texts) + own * len(rows)


def _encode(portion: Portion, number: int, first_ms: int, headers: bytes, out: memoryview) -> int:
    tails = portion.tails
    positions = tails if isinstance(tails, Positions) else Positions(b"", Column("q"), Column("q"))
    size: int = kernel().encode_records(
        address(portion.rows),
        ctypes.c_int64(len(portion.rows)),
        ctypes.c_int64(number),
        ctypes.c_int64(first_ms),
        _column(portion.values),
        _column(portion.keys),
        address(portion.times),
        headers,
        ctypes.c_int64(len(headers)),
        _column(tails) if isinstance(tails, Texts) else None,
        positions.prefix,
        ctypes.c_int64(len(positions.prefix)),
        address(positions.offsets),
        address(positions.indexes),
        address_of(out),
    )
    return size


def _column(texts: Texts) -> Any:
    starts, sizes = address(texts.starts), address(texts.sizes)
    made = _Column(texts.text, starts, sizes)
    made.owners = starts, sizes
    return ctypes.byref(made)
