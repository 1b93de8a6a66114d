"""Reads CSV (RFC 4180) and TSV files with a header, in UTF-8."""

import csv
import io
import sys
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from headwater.model.stream import Entity
from headwater.record_files.formats.base import BadRecordHandler, Dialect, require_known_column, require_no_padding
from headwater.record_files.formats.text_columns import ToJson, converter_of, encode, types_of


class CsvReader:
    """Implements formats.base.Reader for CSV.

    An empty field is null, and so are the null texts of the dialect.
    """

    number_unit = "line"

    def __init__(
        self,
        file: BinaryIO,
        entity: Entity | None,
        on_bad_record: BadRecordHandler,
        dialect: Dialect,
        *,
        delimiter: str = ",",
    ) -> None:
        csv.field_size_limit(sys.maxsize)  # the default, 128 KiB, is less than some calldata
        text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
        self._rows = csv.reader(text, delimiter=dialect.delimiter or delimiter, strict=True)
        self._entity = entity
        self._nulls = dialect.nulls
        self._on_bad_record = on_bad_record

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        names = self._header()
        types = types_of(self._entity)
        prefixes = [b"%b%b:" % (b"," if n else b"{", encode(name)) for n, name in enumerate(names)]
        converters = [self._converter(types.get(name)) for name in names]
        for row in self._valid_rows():
            try:
                yield self._rows.line_num, _record(row, prefixes, converters)
            except ValueError as error:
                self._on_bad_record(self._rows.line_num, _reason(error, row, names, converters))

    def _header(self) -> list[str]:
        """Read the names of the columns.

        Raises ValueError when they don't fit the stream's records.
        """
        names = next(self._rows, [])
        if len(set(names)) < len(names):
            raise ValueError("the header names a column twice")
        require_no_padding(names)
        try:
            require_known_column(names, self._entity)
        except ValueError as error:
            raise ValueError(f"{error}{_delimiter_hint(names)}") from None
        return names

    def _converter(self, type_: str | None) -> ToJson:
        """Return a function that converts a field of this type to JSON.

        The function converts an empty field and null texts to null.
        """
        convert, nulls = converter_of(type_), self._nulls
        if not nulls:
            return lambda text: convert(text) if text else b"null"
        return lambda text: convert(text) if text and text not in nulls else b"null"

    def _valid_rows(self) -> Iterator[list[str]]:
        """Yield the non-empty rows, and handle rows that are not valid CSV as bad records."""
        while True:
            try:
                row = next(self._rows, None)
            except csv.Error as error:
                self._on_bad_record(self._rows.line_num, str(error))
                continue
            if row is None:
                return
            if row:
                yield row

    def fraction_read(self) -> None:
        return None


tsv_reader = partial(CsvReader, delimiter="\t")


def _record(row: list[str], prefixes: list[bytes], converters: list[ToJson]) -> bytes:
    members = zip(prefixes, converters, row, strict=True)
    return b"".join([prefix + convert(text) for prefix, convert, text in members]) + b"}"


def _delimiter_hint(names: list[str]) -> str:
    """Return a hint for a file with an unexpected delimiter; "" without a hint."""
    if names and names[0].startswith("sep="):
        return ". The line `sep=` is Excel's own: remove it"
    delimiter = next((mark for mark in ";\t|," if len(names) == 1 and mark in names[0]), None)
    return "" if delimiter is None else f". Did you mean --delimiter {delimiter!r}?"


def _reason(error: ValueError, row: list[str], names: list[str], converters: list[ToJson]) -> str:
    """Return the error message for a row, with the name of the column."""
    if len(row) != len(names):
        return f"it has {len(row)} fields, the header has {len(names)}"
    for name, convert, text in zip(names, converters, row, strict=True):
        try:
            convert(text)
        except UnicodeEncodeError:
            return f"{name} is not in UTF-8"
        except ValueError as fault:
            return f"{name}: {fault}"
    raise error
