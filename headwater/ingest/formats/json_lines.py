"""JSON lines: one JSON object per line."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import BinaryIO

from headwater.ingest.formats.base import Dialect, Report
from headwater.model.stream import Entity


class JsonLines:
    """Implements formats.base.Reader: lines as they are, whatever is in them, without those that are empty."""

    place = "line"

    def __init__(self, file: BinaryIO, _entity: Entity | None, _report: Report, _dialect: Dialect) -> None:
        self._file = file

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(self._file, 1):
            value = (line.removeprefix(BOM_UTF8) if number == 1 else line).strip()
            if value:
                yield number, value

    def share(self) -> None:
        return None
