"""Records as Kafka stores them, found in a batch."""

import ctypes
from typing import Final, NamedTuple

from headwater.native.library import Buffer, Column, address, address_of, blank_column, kernel

_NARROWEST: Final = 7
"""Bytes of a record that has nothing."""


class Scanned(NamedTuple):
    """Columns of the records of a batch. Places and sizes are in bytes of its body; -1 for the size of a null.

    times: in ms since the epoch, 0 where a record has none.
    """

    value_starts: Column
    value_sizes: Column
    key_starts: Column
    key_sizes: Column
    times: Column
    offsets: Column


def scan_records(body: Buffer, count: int, base_offset: int, first_ms: int, append_ms: int = -1) -> Scanned:
    """The records of message format v2 in a body that is not compressed, which is not copied.

    count, base_offset, first_ms: as the batch's head says. append_ms: of all records, if not -1: when the broker
    appended them. Raises ValueError when the body is not `count` records.
    """
    if not 0 <= count <= len(body) // _NARROWEST:
        raise ValueError(f"{count} records in {len(body)} bytes")
    scanned = Scanned(*(blank_column(kind, count) for kind in "iiiiqq"))
    found = kernel().scan_records(
        address_of(body),
        *map(ctypes.c_int64, (len(body), count, base_offset, first_ms, append_ms)),
        *map(address, scanned),
    )
    if found != count:
        raise ValueError(f"{len(body)} bytes are not {count} records")
    return scanned
