"""Converts between columns and the values that tests write by hand."""

from array import array
from collections.abc import Iterable

from headwater.model.record import RecordBatch

Record = tuple[bytes | None, bytes | None, int, int, int, int]


def plain(batch: RecordBatch) -> list[Record]:
    """Return value, key, timestamp, partition, offset and index of each record."""
    bytes_columns = batch.values, batch.keys
    return [*zip(*bytes_columns, batch.timestamps, batch.partitions, batch.offsets, batch.indexes, strict=True)]


def numbers(values: Iterable[int]) -> "array[int]":
    """Return an array of type "q"."""
    return array("q", values)


def numbered(rows: Iterable[int]) -> "array[int]":
    """Return an array of type "i"."""
    return array("i", rows)
