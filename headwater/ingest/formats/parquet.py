"""Parquet, by pyarrow: columns of any type become JSON."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from shutil import copyfileobj
from typing import Any, BinaryIO, Final

import msgspec

from headwater.ingest.formats.arrow_types import Convert, Member, converter, require_place, stored
from headwater.ingest.formats.base import Dialect, Report, require_known_column
from headwater.ingest.formats.columns import types_of
from headwater.ingest.formats.packed import arrow
from headwater.model.stream import Entity

ROWS: Final = 1_000
"""Records that are unpacked at once."""

_BAD_VALUE: Final = (ValueError, OverflowError)

encode: Final = msgspec.json.Encoder(decimal_format="number").encode


class Parquet:
    """Implements formats.base.Reader. docs/files.md has the table of types."""

    place = "record"

    def __init__(self, file: BinaryIO, entity: Entity | None, report: Report, _dialect: Dialect) -> None:
        self._arrow = arrow("Parquet")
        self._source = file
        self._report = report
        self._entity = entity
        self._types = types_of(entity)
        self._example = entity.example if entity else {}
        self._read, self._rows = 0, 1

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        try:
            yield from self._all()
        except self._arrow.ArrowException as error:
            if isinstance(error, MemoryError):
                raise
            raise ValueError(str(error)) from error

    def _all(self) -> Iterator[tuple[int, bytes]]:
        from pyarrow.parquet import ParquetFile

        with _seekable(self._source) as source, ParquetFile(source) as file:
            self._rows = file.metadata.num_rows or 1
            fields = list(file.schema_arrow)
            if len({field.name for field in fields}) < len(fields):
                raise ValueError("two columns have one name")
            require_known_column([field.name for field in fields], self._entity)
            schema = self._arrow.schema([(field.name, stored(field.type, field.name)) for field in fields])
            convert = [(field.name, self._converter(field.name, field.type)) for field in fields]
            for batch in file.iter_batches(ROWS):
                yield from self._records(batch.cast(schema), convert)

    def _converter(self, name: str, kind: Any) -> Convert:
        require_place(kind, name, self._types.get(name))
        return converter(kind, Member(self._types.get(name), self._example.get(name)))

    def _records(self, batch: Any, convert: list[tuple[str, Convert]]) -> Iterator[tuple[int, bytes]]:
        for at, row in enumerate(_rows(batch)):
            self._read += 1
            try:
                yield self._read, encode({name: to_json(row[name]) for name, to_json in convert})
            except _BAD_VALUE as error:
                self._report(self._read, _reason(error, batch, at, convert))

    def share(self) -> float:
        return self._read / self._rows


def _rows(batch: Any) -> Iterator[Any]:
    """The rows of a batch. A batch with a value that Python has no object for is read value by value."""
    try:
        return iter(batch.to_pylist())
    except _BAD_VALUE:
        return (_Row(batch, at) for at in range(batch.num_rows))


class _Row:
    """A row whose values are read one by one."""

    def __init__(self, batch: Any, at: int) -> None:
        self._batch = batch
        self._at = at

    def __getitem__(self, name: str) -> Any:
        return self._batch.column(name)[self._at].as_py()


def _reason(error: Exception, batch: Any, at: int, convert: list[tuple[str, Convert]]) -> str:
    """What is wrong with a row, with the name of the column."""
    row = _Row(batch, at)
    for name, to_json in convert:
        try:
            encode(to_json(row[name]))
        except _BAD_VALUE as fault:
            return f"{name}: {fault}"
    return str(error)


@contextmanager
def _seekable(file: BinaryIO) -> Iterator[Any]:
    """The file, or a copy of what comes from a pipe or is compressed as a whole: Parquet is read from its end."""
    if isinstance(getattr(file, "raw", None), FileIO) and file.seekable():
        yield file
        return
    with tempfile.TemporaryFile() as copy:
        copyfileobj(file, copy)
        copy.seek(0)
        yield copy
