"""Decompresses gzip, bzip2, xz, Zstandard and LZ4 files.

The first bytes of a file show its compression.
"""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Mapping
from io import BufferedReader
from typing import Any, BinaryIO, Final

from headwater.errors import SetupError
from headwater.record_files.formats.optional_pyarrow import import_pyarrow

DAMAGE_ERRORS: Final = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)
"""The exceptions that reading a damaged file raises."""


def _zstandard(file: BufferedReader) -> Any:
    return _by_arrow(file, "Zstandard", "zstd")


def _lz4(file: BufferedReader) -> Any:
    return _by_arrow(file, "LZ4", "lz4")


def _by_arrow(file: BufferedReader, name: str, codec: str) -> Any:
    module = import_pyarrow(name)
    if not module.Codec.is_available(codec):
        raise SetupError(f"This pyarrow can't read {name}. Install another one, or decompress the file first.")
    return module.CompressedInputStream(module.PythonFile(file, "r"), codec)


def _lz4_legacy(_file: BufferedReader) -> Any:
    raise SetupError("The file has LZ4's legacy format, which is not supported. Decompress it first: `lz4 -d FILE`.")


def _gzip(file: BufferedReader) -> Any:
    return _Gunzip(file)


class _Gunzip(gzip.GzipFile):
    """Reads a gzip file like gunzip.

    Data after the last gzip member is ignored with a warning.
    """

    def __init__(self, file: BufferedReader) -> None:
        super().__init__(fileobj=file)
        self.warning = ""
        self._has_read = False

    def read1(self, size: int = -1) -> bytes:
        try:
            data = super().read1(size)
        except gzip.BadGzipFile as error:
            if not self._has_read or not str(error).startswith("Not a gzipped file"):
                raise
            self.warning = "the data after the end of the gzip data is not gzip, and is ignored"
            return b""
        self._has_read = True
        return data


_OPENERS: Final[Mapping[bytes, Callable[[BufferedReader], Any]]] = {
    b"\x1f\x8b": _gzip,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstandard,
    b"\x04\x22\x4d\x18": _lz4,
    b"\x02\x21\x4c\x18": _lz4_legacy,
}
"""The openers by magic number. No uncompressed record file begins with a magic number, except a CSV file whose first
column is named `BZh…`."""
BUFFER_BYTES: Final = 1 << 18
_LONGEST_MAGIC: Final = max(map(len, _OPENERS))
_SKIPPABLE: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
"""The start of a skippable frame (RFC 8878, section 3.1.2); LZ4 has the same frames."""


class DecompressedFile(io.RawIOBase):
    """The decompressed content of a file.

    If the file is damaged, all data before the damage is returned before the error is raised. A BufferedReader on top
    of the decompressor's own `readinto` would lose up to a buffer of valid data.
    """

    def __init__(self, source: Any) -> None:
        self._source = source

    @property
    def warning(self) -> str:
        """A warning about the file, which is set after the file was read to its end.

        It is "" without a warning.
        """
        return getattr(self._source, "warning", "")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def decompressed(file: BufferedReader) -> BinaryIO:
    """Return the decompressed content of a file.

    Raises SetupError when pyarrow is needed and not installed.
    """
    _skip_frames(file)
    start = _peek(file, _LONGEST_MAGIC)
    for magic, open_ in _OPENERS.items():
        if start.startswith(magic):
            return BufferedReader(DecompressedFile(open_(file)), BUFFER_BYTES)
    return file


def _peek(file: BufferedReader, size: int) -> bytes:
    """Return the next bytes of a file without reading them.

    `BufferedReader.peek` returns only the rest of its buffer, which may be shorter.
    """
    if not file.seekable():
        return file.peek(size)
    position = file.tell()
    start = file.read(size)
    file.seek(position)
    return start


def _skip_frames(file: BufferedReader) -> None:
    """Skip the frames before the first frame with data."""
    while _SKIPPABLE.match(_peek(file, 4)):
        size = int.from_bytes(file.read(8)[4:], "little")
        while size > 0 and (part := file.read(min(size, BUFFER_BYTES))):
            size -= len(part)


def decompression_warning(file: BinaryIO | None) -> str:
    """Return the warning about a decompressed file that was read to its end.

    Returns "" without a warning.
    """
    raw = getattr(file, "raw", None)
    return raw.warning if isinstance(raw, DecompressedFile) else ""
