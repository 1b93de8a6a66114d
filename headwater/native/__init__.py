"""The loops of the data plane that run once per record, in C (kernel.c), and how Python calls them.

`setup.py` compiles them when the package is built or installed.
"""

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from headwater.errors import SetupError

LIBRARY: Final = Path(__file__).with_name("kernel.so")
_WIDEST: Final = 100
"""Bytes of the numbers that a record has beside its texts, at most."""
_NARROWEST: Final = 7
"""Bytes of a record that has nothing."""


@cache
def _kernel() -> Any:
    """Raises SetupError."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise SetupError(f"{LIBRARY.name} can't be loaded: {error}. Run `make setup`.") from error
    for function in (library.encode_records, library.long_integers):
        function.restype = ctypes.c_int64
    return library


class Positions(NamedTuple):
    """Values "<prefix><offset>/<index>" of a header."""

    prefix: bytes
    offsets: Sequence[int]
    indexes: Sequence[int]


def encode_records(
    values: Sequence[bytes | None],
    value_sizes: Sequence[int],
    keys: Sequence[bytes | None],
    times: Sequence[int],
    headers: bytes,
    tails: Sequence[bytes] | Positions = (),
) -> memoryview:
    """Records of Kafka's message format v2, one after the other; at least one.

    value_sizes: see `sizes_of`. times: in ms. headers: of each record, encoded, their number in front. tails, if not
    empty: the values of one more header, which the number counts and whose name is behind.
    """
    # Names for all columns: they have to outlive the call, which knows their addresses alone.
    value_column, key_column, time_column = array("i", value_sizes), array("i", sizes_of(keys)), array("q", times)
    value_text, key_text, tail_text, prefix = _joined(values), _joined(keys), b"", b""
    tail_column, offset_column, index_column = array("i"), array("q"), array("q")
    if isinstance(tails, Positions):
        prefix, offset_column, index_column = tails.prefix, array("q", tails.offsets), array("q", tails.indexes)
    else:
        tail_text, tail_column = b"".join(tails), array("i", map(len, tails))
    own = len(headers) + len(prefix) + _WIDEST
    out = bytearray(len(value_text) + len(key_text) + len(tail_text) + own * len(values))
    written = _kernel().encode_records(
        ctypes.c_int64(len(values)),
        value_text,
        _address(value_column),
        key_text,
        _address(key_column),
        _address(time_column),
        headers,
        ctypes.c_int64(len(headers)),
        tail_text,
        _address(tail_column),
        prefix,
        ctypes.c_int64(len(prefix)),
        _address(offset_column),
        _address(index_column),
        (ctypes.c_char * len(out)).from_buffer(out),
    )
    return memoryview(out)[:written]


def long_integers(text: bytes, room: int) -> tuple[list[int], list[int]]:
    """Where numbers may begin with 16 digits, in lines of UTF-8: numbers of lines, and places in them, at most `room`.

    Some more may be among them, but of the lines that are JSON objects no such number is missing.
    """
    lines, places = array("i", bytes(4 * room)), array("i", bytes(4 * room))
    found = _kernel().long_integers(
        text, ctypes.c_int64(len(text)), _address(lines), _address(places), ctypes.c_int64(room)
    )
    return lines[:found].tolist(), places[:found].tolist()


def sizes_of(texts: Sequence[bytes | None]) -> list[int]:
    """The size of each in bytes, -1 for None."""
    try:
        return [*map(len, texts)]  # type: ignore[arg-type]  # None has no length
    except TypeError:
        return [-1 if text is None else len(text) for text in texts]


def _joined(texts: Sequence[bytes | None]) -> bytes:
    try:
        return b"".join(texts)  # type: ignore[arg-type]  # None can't be joined
    except TypeError:
        return b"".join(filter(None, texts))


def _address(column: "array[int]") -> ctypes.c_void_p | None:
    """NULL for a column that is not there."""
    return ctypes.c_void_p(column.buffer_info()[0]) if column else None


class Scanned(NamedTuple):
    """Columns of the records of a batch. Places and sizes are in bytes of its body; -1 for the size of a null.

    times: in ms since the epoch, 0 where a record has none.
    """

    value_starts: "array[int]"
    value_sizes: "array[int]"
    key_starts: "array[int]"
    key_sizes: "array[int]"
    times: "array[int]"
    offsets: "array[int]"


def scan_records(
    body: bytes | bytearray | memoryview, count: int, base_offset: int, first_ms: int, append_ms: int = -1
) -> Scanned:
    """The records of message format v2 in a body that is not compressed, which is not copied.

    count, base_offset, first_ms: as the batch's head says. append_ms: of all records, if not -1: when the broker
    appended them. Raises ValueError when the body is not `count` records.
    """
    if not 0 <= count <= len(body) // _NARROWEST:
        raise ValueError(f"{count} records in {len(body)} bytes")
    scanned = Scanned(*(array(kind, bytes(array(kind).itemsize * count)) for kind in "iiiiqq"))
    scan = _kernel().scan_records
    scan.restype = ctypes.c_int64
    found = scan(
        ctypes.c_void_p(np.frombuffer(body, np.uint8).ctypes.data),
        *map(ctypes.c_int64, (len(body), count, base_offset, first_ms, append_ms)),
        *map(_address, scanned),
    )
    if found != count:
        raise ValueError(f"{len(body)} bytes are not {count} records")
    return scanned
