"""Reads files of records in any format, by path or from standard input.

The files may be compressed.
"""

import csv
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

from headwater.errors import SetupError, os_error_reason
from headwater.model.outputs import MAX_OUTPUT_BYTES
from headwater.model.stream import Entity
from headwater.record_files.formats import FORMATS, format_of
from headwater.record_files.formats.base import DEFAULT_DIALECT, Dialect, Reader
from headwater.record_files.formats.compression import DAMAGE_ERRORS, decompressed, decompression_warning

STDIN: Final = Path("-")
_DAMAGE_ERRORS: Final = (*DAMAGE_ERRORS, csv.Error)


class _Object(msgspec.Struct):
    """A JSON object.

    The decoder of this class checks the syntax of all members, and stores none of them.
    """


_check = msgspec.json.Decoder(_Object).decode


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the non-empty lines of a file, decompressed and without a byte order mark.

    Raises SetupError when the file can't be read.
    """
    with _opened(path) as file:
        for number, line in enumerate(decompressed(file)):
            text = (line if number else line.removeprefix(BOM_UTF8)).rstrip(b"\r\n")
            if text.strip():
                yield text


def read_content(path: Path) -> bytes:
    """Return the non-empty lines of a file, decompressed and without a byte order mark.

    Raises SetupError when the file can't be read.
    """
    return b"\n".join(read_lines(path))


@dataclass(slots=True)
class RecordFile:
    """Iterates over the records of a file as JSON.

    Each iteration reads the file from its beginning.

    Attributes:
        path: The path; `-` is standard input.
        format: A name of FORMATS; empty to derive it from the path.
        entity: The entity of the stream, which determines the types of columns.
        check: Whether to yield only valid records. An invalid record raises SetupError; with `skip_bad` it is skipped,
            and counted in `skipped`.
        skip_bad: Whether to skip records that can't be read.
        dialect: The delimiter and the null texts of CSV and TSV.
        skipped: The number of skipped records of the last iteration.
        warning: A warning about the file, which is set after the file was read to its end.
    """

    path: Path
    format: str = ""
    entity: Entity | None = None
    _: KW_ONLY
    check: bool = True
    skip_bad: bool = False
    dialect: Dialect = DEFAULT_DIALECT
    skipped: int = 0
    warning: str = ""
    _reader: Reader | None = None
    _file: BufferedReader | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the records.

        Raises SetupError for a damaged file, and for an invalid record with its number.
        """
        self.skipped = 0
        with _opened(self.path) as self._file:
            content = decompressed(self._file)
            reader = self._open_reader(content)
            self._reader = reader
            for number, record in reader:
                if self.check and (fault := _problem(record)):
                    self._handle_bad_record(number, fault)
                else:
                    yield record
            if text := decompression_warning(content):
                self.warning = f"{_display_name(self.path)}: {text}"

    def _open_reader(self, content: BinaryIO) -> Reader:
        name = self.format or format_of(self.path)
        if self.dialect != DEFAULT_DIALECT and name not in ("csv", "tsv"):
            raise SetupError(
                f"{_display_name(self.path)} is read as {name}: --delimiter and --null are for CSV and TSV."
            )
        return FORMATS[name](content, self.entity, self._handle_bad_record, self.dialect)

    def size(self) -> int:
        """Return the size of the file on disk in bytes; 0 for standard input."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def bytes_read(self) -> float:
        """Return the number of bytes of the file that have been read, for progress bars."""
        if self._reader is None or self._file is None or not self.size():
            return 0.0
        fraction_read = self._reader.fraction_read()
        if fraction_read is not None:
            return fraction_read * self.size()
        return self.size() if self._file.closed else self._file.tell()

    def _handle_bad_record(self, number: int, fault: str) -> None:
        """Count a record that is skipped. Raises SetupError when bad records are not skipped."""
        if not self.skip_bad:
            unit = self._reader.number_unit if self._reader else "record"
            raise SetupError(f"{_display_name(self.path)}, {unit} {number}: {fault}.")
        self.skipped += 1


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    """Open a file.

    Raises SetupError when it can't be opened, or when reading it in the `with` block fails.
    """
    try:
        if path == STDIN:
            yield cast("BufferedReader", sys.stdin.buffer)
            return
        with path.open("rb") as file:
            yield file
    except _DAMAGE_ERRORS as error:
        raise SetupError(f"{_display_name(path)} can't be read: {os_error_reason(error)}.") from error


def _display_name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)


def _problem(record: bytes) -> str | None:
    """Return why a line is not a valid record; None for a valid record."""
    if len(record) > MAX_OUTPUT_BYTES:
        return f"it has {len(record)} bytes; at most {MAX_OUTPUT_BYTES} are allowed"
    try:
        _check(record)
        if not record.isascii():
            record.decode()
    except msgspec.ValidationError:
        return "it is not a JSON object"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"it is not valid JSON: {error}"
    return None
