"""CSV (RFC 4180) and TSV with a header, in UTF-8."""

import csv
import io
import sys
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from headwater.ingest.formats.base import Report
from headwater.ingest.formats.columns import ToJson, encode, to_json, types_of
from headwater.model.stream import Entity


class CommaSeparated:
    """Implements formats.base.Reader. An empty field is null."""

    place = "line"

    def __init__(self, file: BinaryIO, entity: Entity | None, report: Report, delimiter: str = ",") -> None:
        csv.field_size_limit(sys.maxsize)  # the default, 128 KiB, is less than some calldata
        text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
        self._rows = csv.reader(text, delimiter=delimiter, strict=True)
        self._types = types_of(entity)
        self._report = report

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        names = next(self._rows, [])
        if len(set(names)) < len(names):
            raise ValueError("the header names a column twice")
        prefixes = [b"%b%b:" % (b"," if n else b"{", encode(name)) for n, name in enumerate(names)]
        convert = [to_json(self._types.get(name)) for name in names]
        for row in self._sound_rows():
            try:
                yield self._rows.line_num, _record(row, prefixes, convert)
            except ValueError as error:
                self._report(self._rows.line_num, _reason(error, row, names, convert))

    def _sound_rows(self) -> Iterator[list[str]]:
        """Rows with fields in them; what is not CSV is reported."""
        while True:
            try:
                row = next(self._rows, None)
            except csv.Error as error:
                self._report(self._rows.line_num, str(error))
                continue
            if row is None:
                return
            if row:
                yield row

    def share(self) -> None:
        return None


tab_separated = partial(CommaSeparated, delimiter="\t")


def _record(row: list[str], prefixes: list[bytes], convert: list[ToJson]) -> bytes:
    members = zip(prefixes, convert, row, strict=True)
    return b"".join([prefix + (convert_(text) if text else b"null") for prefix, convert_, text in members]) + b"}"


def _reason(error: ValueError, row: list[str], names: list[str], convert: list[ToJson]) -> str:
    """What is wrong with a row, with the name of the column."""
    if len(row) != len(names):
        return f"it has {len(row)} fields, the header has {len(names)}"
    for name, convert_, text in zip(names, convert, row, strict=True):
        try:
            convert_(text)
        except UnicodeEncodeError:
            return f"{name} is not in UTF-8"
        except ValueError as fault:
            if text:
                return f"{name}: {fault}"
    raise error
