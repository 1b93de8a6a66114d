"""Batches of output records, their ids, timestamps and maximum size."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headwater.model.outputs import MAX_OUTPUT_BYTES, MAX_RECORD_BYTES, OUTPUT_ID_HEADER
from headwater.model.record import (
    Headers,
    Int64Column,
    RecordBatch,
    RowIndexes,
    SourceIds,
    position_ids,
    take_int64,
)
from headwater.native import BytesColumn
from headwater.native.librdkafka import HeaderColumn, OutputIdColumn

MAX_TIMESTAMP_AGE_MS = 3_600_000
"""How old the timestamp of a record may be. The current time replaces an older timestamp."""
MAX_TIMESTAMP_AHEAD_MS = 600_000
"""How far ahead of the current time the timestamp of a record may be. The current time replaces a later timestamp."""


def output_timestamps(
    timestamps: Int64Column, epoch_s: Callable[[], float] = time.time, max_age_ms: int = MAX_TIMESTAMP_AGE_MS
) -> Int64Column:
    """Return the timestamps of output records in ms since the epoch.

    An output has the timestamp of its source record, or the current time when that timestamp is older than `max_age_ms`
    or more than MAX_TIMESTAMP_AHEAD_MS ahead. Kafka's retention uses the timestamp, so it would delete outputs with old
    timestamps within minutes. Kafka rejects timestamps that are more than an hour ahead
    (`message.timestamp.after.max.ms`).
    """
    now_ms = int(epoch_s() * 1000)
    first, last = now_ms - max_age_ms, now_ms + MAX_TIMESTAMP_AHEAD_MS
    times = np.frombuffer(timestamps, np.int64)
    if times.min(initial=now_ms) >= first and times.max(initial=now_ms) <= last:
        return timestamps
    return Int64Column("q", [at if first <= at <= last else now_ms for at in timestamps])


def output_ids(batch: RecordBatch, source_ids: SourceIds = position_ids) -> list[bytes]:
    """Return the output id of each row: the id of its source record, and the output's index.

    It is the value of the header OUTPUT_ID_HEADER, by which consumers recognise repeated records after a failure.
    """
    ids = source_ids(batch)
    if not any(batch.indexes):  # fast path: in most batches all indexes are 0
        return [source_id + b"/0" for source_id in ids]
    return [b"%b/%d" % pair for pair in zip(ids, batch.indexes, strict=True)]


def output_id_column(batch: RecordBatch, source_ids: SourceIds = position_ids) -> BytesColumn | OutputIdColumn:
    """Return the output ids as a header column."""
    if source_ids is position_ids:
        return OutputIdColumn(batch.topic, batch.partitions, batch.offsets, batch.indexes)
    return BytesColumn.of(output_ids(batch, source_ids))


def size_error(value: bytes | None, key: bytes | None, headers: Headers) -> str | None:
    """Return why a record is too large for a topic, or None."""
    size = len(value or b"")
    if size > MAX_OUTPUT_BYTES:
        return f"The value has {size} bytes; at most {MAX_OUTPUT_BYTES} are allowed."
    total = size + len(key or b"") + sum(len(name) + len(value) for name, value in headers)
    if total > MAX_RECORD_BYTES:
        return f"Key, value and headers have {total} bytes; at most {MAX_RECORD_BYTES} are allowed."
    return None


@dataclass(slots=True)
class OutputBatch:
    """Output records for one topic, as columns of the same length. Immutable.

    Attributes:
        topic: The topic to which the records are written.
        values: The values.
        keys: The keys.
        partitions: The partitions of the topic.
        timestamps: The timestamps in ms since the epoch; 0 means the current time.
        headers: Header columns. The column named OUTPUT_ID_HEADER has the output ids, see `output_ids`.
    """

    topic: str
    values: BytesColumn
    keys: BytesColumn
    partitions: Int64Column
    timestamps: Int64Column
    headers: Sequence[HeaderColumn] = ()

    @classmethod
    def of(
        cls,
        topic: str,
        values: Iterable[bytes | None],
        keys: Iterable[bytes | None],
        partitions: Iterable[int],
        timestamps: Iterable[int],
        ids: Sequence[bytes] = (),
        headers: Headers | None = None,
    ) -> "OutputBatch":
        """Return a batch with these columns.

        Args:
            topic: The topic of the batch.
            values: The value of each record.
            keys: The key of each record.
            partitions: The partition of each record.
            timestamps: The timestamp of each record.
            ids: The output id of each record.
            headers: Further headers, the same for each record.
        """
        value_column = BytesColumn.of(values)
        columns = [HeaderColumn(name, BytesColumn.of([value] * len(value_column))) for name, value in headers or []]
        if ids:
            columns.append(HeaderColumn(OUTPUT_ID_HEADER, BytesColumn.of(ids)))
        integers = Int64Column("q", partitions), Int64Column("q", timestamps)
        return cls(topic, value_column, BytesColumn.of(keys), *integers, columns)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def ids(self) -> BytesColumn | OutputIdColumn | None:
        """The column of OUTPUT_ID_HEADER, if there is one."""
        return next((header.values for header in self.headers if header.name == OUTPUT_ID_HEADER), None)

    def with_headers(self, headers: Headers) -> "OutputBatch":
        """Return the batch with further headers, the same for each record."""
        columns = [HeaderColumn(name, BytesColumn.of([value] * len(self))) for name, value in headers]
        return replace(self, headers=[*self.headers, *columns]) if columns else self

    def headers_of(self, row: int) -> Headers:
        """Return the headers of a record."""
        pairs = [(name, _header_value(values, row)) for name, values in self.headers]
        return [(name, value) for name, value in pairs if value is not None]

    def without_source_partitions(self, partitions: Collection[int]) -> "OutputBatch":
        """Return the outputs whose source records are not from these partitions.

        A batch without OUTPUT_ID_HEADER is returned unchanged: a sink without this header writes records that may be
        repeated without effect. If the output ids do not contain positions, the output's own partition counts as that
        of its source record. These are the outputs of a redrive, whose only worker loses all partitions at once.
        """
        ids = self.ids
        if ids is None:
            return self
        source_partitions = ids.partitions if isinstance(ids, OutputIdColumn) else self.partitions
        rows = RowIndexes("i", [row for row, partition in enumerate(source_partitions) if partition not in partitions])
        return replace(
            self,
            values=self.values.select_rows(rows),
            keys=self.keys.select_rows(rows),
            partitions=take_int64(self.partitions, rows),
            timestamps=take_int64(self.timestamps, rows),
            headers=[HeaderColumn(name, _header_rows(values, rows)) for name, values in self.headers],
        )


def values_bytes(batches: Iterable[OutputBatch]) -> int:
    """Return the size of the values of batches in bytes.

    The batches of several sinks can share their values, which then count once.
    """
    columns = {id(outputs.values): outputs.values for outputs in batches}
    return sum(len(column.buffer) for column in columns.values())


def _header_value(values: BytesColumn | OutputIdColumn, row: int) -> bytes | None:
    return values.value(row) if isinstance(values, OutputIdColumn) else values[row]


def _header_rows(values: BytesColumn | OutputIdColumn, rows: RowIndexes) -> BytesColumn | OutputIdColumn:
    if isinstance(values, BytesColumn):
        return values.select_rows(rows)
    topic, *columns = values
    return OutputIdColumn(topic, *(take_int64(column, rows) for column in columns))
