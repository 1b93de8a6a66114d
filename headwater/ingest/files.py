"""Files of records, in any of the formats, compressed or not, by name or from standard input."""

import csv
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

from headwater.errors import SetupError, reason_of
from headwater.ingest.formats import FORMATS, format_of
from headwater.ingest.formats.base import PLAIN, Dialect, Reader
from headwater.ingest.formats.packed import DAMAGE, unpacked, warning_of
from headwater.model.stream import Entity
from headwater.model.transform import MAX_OUTPUT_BYTES

STDIN: Final = Path("-")
_DAMAGE: Final = (*DAMAGE, csv.Error)


class _Object(msgspec.Struct):
    """Any JSON object: its decoder checks the syntax of all members and keeps none of them."""


_check = msgspec.json.Decoder(_Object).decode


def read_lines(path: Path) -> Iterator[bytes]:
    """The non-empty lines of a file, unpacked, without a byte order mark. Raises SetupError when it can't be read."""
    with _opened(path) as file:
        for number, line in enumerate(unpacked(file)):
            text = (line if number else line.removeprefix(BOM_UTF8)).rstrip(b"\r\n")
            if text.strip():
                yield text


@dataclass(slots=True)
class RecordFile:
    """A file's records as JSON. Each iteration reads it anew.

    format: of FORMATS; empty: by the name. entity: of the stream, for the types of a file's columns.
    check: only sound records are given; others are errors, or left out with skip_bad and counted in `bad`.
    dialect: how text with columns is written. warning: what is odd about the file, once it is read.
    """

    path: Path
    format: str = ""
    entity: Entity | None = None
    check: bool = True
    skip_bad: bool = False
    dialect: Dialect = PLAIN
    bad: int = 0
    warning: str = ""
    _reader: Reader | None = None
    _file: BufferedReader | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[bytes]:
        """Raises SetupError when the file can't be read, with the place of the first record that is not sound."""
        self.bad = 0
        with _opened(self.path) as self._file:
            content = unpacked(self._file)
            reader = self._open_reader(content)
            self._reader = reader
            for number, record in reader:
                if self.check and (fault := _fault(record)):
                    self._leave_out(number, fault)
                else:
                    yield record
            if text := warning_of(content):
                self.warning = f"{_name(self.path)}: {text}"

    def _open_reader(self, content: BinaryIO) -> Reader:
        name = self.format or format_of(self.path)
        if self.dialect != PLAIN and name not in ("csv", "tsv"):
            raise SetupError(f"{_name(self.path)} is read as {name}: --delimiter and --null are for CSV and TSV.")
        return FORMATS[name](content, self.entity, self._leave_out, self.dialect)

    def size(self) -> int:
        """Bytes as stored; 0 when nobody knows."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def done(self) -> float:
        """How many of these bytes are read."""
        if self._reader is None or self._file is None or not self.size():
            return 0.0
        share = self._reader.share()
        if share is not None:
            return share * self.size()
        return self.size() if self._file.closed else self._file.tell()

    def _leave_out(self, number: int, fault: str) -> None:
        if not self.skip_bad:
            place = self._reader.place if self._reader else "record"
            raise SetupError(f"{_name(self.path)}, {place} {number}: {fault}.")
        self.bad += 1


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    """Raises SetupError also for what fails while the file is read."""
    try:
        if path == STDIN:
            yield cast("BufferedReader", sys.stdin.buffer)
            return
        with path.open("rb") as file:
            yield file
    except _DAMAGE as error:
        raise SetupError(f"{_name(path)} can't be read: {reason_of(error)}.") from error


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)


def _fault(record: bytes) -> str | None:
    """Why this is no record."""
    if len(record) > MAX_OUTPUT_BYTES:
        return f"it has {len(record)} bytes; at most {MAX_OUTPUT_BYTES} are allowed"
    try:
        _check(record)
        if not record.isascii():
            record.decode()
    except msgspec.ValidationError:
        return "it is no JSON object"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"it is no JSON: {error}"
    return None
