"""Reads JSON lines, which are files with one JSON object per line."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import BinaryIO

from headwater.model.stream import Entity
from headwater.record_files.formats.base import BadRecordHandler, Dialect


class JsonLinesReader:
    """Implements formats.base.Reader for JSON lines.

    Yields the non-empty lines unchecked, without white space at their ends and without a byte order mark.
    """

    number_unit = "line"

    def __init__(
        self, file: BinaryIO, _entity: Entity | None, _on_bad_record: BadRecordHandler, _dialect: Dialect
    ) -> None:
        self._file = file

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(self._file, 1):
            value = (line.removeprefix(BOM_UTF8) if number == 1 else line).strip()
            if value:
                yield number, value

    def fraction_read(self) -> None:
        return None
