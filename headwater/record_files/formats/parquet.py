"""Reads Parquet files with pyarrow, and converts columns of any type to JSON."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from shutil import copyfileobj
from typing import Any, BinaryIO, Final

import msgspec

from headwater.model.stream import Entity
from headwater.record_files.formats.arrow_types import Convert, Member, cast_type, converter, require_compatible
from headwater.record_files.formats.base import BadRecordHandler, Dialect, require_known_column, require_no_padding
from headwater.record_files.formats.optional_pyarrow import import_pyarrow
from headwater.record_files.formats.text_columns import types_of

ROWS: Final = 1_000
"""The number of records that are decoded at once."""

_BAD_VALUE: Final = (ValueError, OverflowError)

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


class ParquetReader:
    """Implements formats.base.Reader for Parquet. docs/files.md has the table of types."""

    number_unit = "record"

    def __init__(
        self, file: BinaryIO, entity: Entity | None, on_bad_record: BadRecordHandler, _dialect: Dialect
    ) -> None:
        self._arrow = import_pyarrow("Parquet")
        self._source = file
        self._on_bad_record = on_bad_record
        self._entity = entity
        self._types = types_of(entity)
        self._example = entity.example if entity else {}
        self._records_read, self._row_count = 0, 1

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        try:
            yield from self._all_records()
        except self._arrow.ArrowException as error:
            if isinstance(error, MemoryError):
                raise
            raise ValueError(str(error)) from error

    def _all_records(self) -> Iterator[tuple[int, bytes]]:
        from pyarrow.parquet import ParquetFile

        with _seekable(self._source) as source, ParquetFile(source) as file:
            self._row_count = file.metadata.num_rows or 1
            fields = list(file.schema_arrow)
            names = [field.name for field in fields]
            if len(set(names)) < len(names):
                raise ValueError("two columns have one name")
            require_no_padding(names)
            require_known_column(names, self._entity)
            schema = self._arrow.schema([(field.name, cast_type(field.type, field.name)) for field in fields])
            converters = [(field.name, self._converter(field.name, field.type)) for field in fields]
            for batch in file.iter_batches(ROWS):
                yield from self._records(batch.cast(schema), converters)

    def _converter(self, name: str, kind: Any) -> Convert:
        require_compatible(kind, name, self._types.get(name))
        return converter(kind, Member(self._types.get(name), self._example.get(name)))

    def _records(self, batch: Any, converters: list[tuple[str, Convert]]) -> Iterator[tuple[int, bytes]]:
        for index, row in enumerate(_rows(batch)):
            self._records_read += 1
            try:
                yield self._records_read, _encode({name: convert(row[name]) for name, convert in converters})
            except _BAD_VALUE as error:
                self._on_bad_record(self._records_read, _reason(error, batch, index, converters))

    def fraction_read(self) -> float:
        return self._records_read / self._row_count


def _rows(batch: Any) -> Iterator[Any]:
    """Return the rows of a batch.

    If a value can't be converted to Python (such as a date beyond year 9999), the rows are converted value by value, so
    that only the row with that value fails.
    """
    try:
        return iter(batch.to_pylist())
    except _BAD_VALUE:
        return (_Row(batch, index) for index in range(batch.num_rows))


class _Row:
    """A row whose values are converted one by one."""

    def __init__(self, batch: Any, index: int) -> None:
        self._batch = batch
        self._index = index

    def __getitem__(self, name: str) -> Any:
        return self._batch.column(name)[self._index].as_py()


def _reason(error: Exception, batch: Any, index: int, converters: list[tuple[str, Convert]]) -> str:
    """Return the error message for a row, with the name of the column."""
    row = _Row(batch, index)
    for name, convert in converters:
        try:
            _encode(convert(row[name]))
        except _BAD_VALUE as fault:
            return f"{name}: {fault}"
    return str(error)


@contextmanager
def _seekable(file: BinaryIO) -> Iterator[Any]:
    """Return the file, or a seekable copy of a pipe or of a compressed file.

    Parquet is read from the end.
    """
    if isinstance(getattr(file, "raw", None), FileIO) and file.seekable():
        yield file
        return
    with tempfile.TemporaryFile() as copy:
        copyfileobj(file, copy)
        copy.seek(0)
        yield copy
