"""Compressed files: gzip, bzip2, xz, Zstandard and LZ4, told apart by how they begin."""

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

DAMAGE: Final = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)
"""What reading a damaged file raises."""


def arrow(what: str) -> Any:
    """The module pyarrow, which is an extra. Raises SetupError that names it."""
    try:
        import pyarrow
    except ImportError as error:
        raise SetupError(f"{what} needs pyarrow. Install it: `.venv/bin/pip install -e '.[parquet]'`.") from error
    return pyarrow


def _zstandard(file: BufferedReader) -> Any:
    return _by_arrow(file, "Zstandard", "zstd")


def _lz4(file: BufferedReader) -> Any:
    return _by_arrow(file, "LZ4", "lz4")


def _by_arrow(file: BufferedReader, name: str, codec: str) -> Any:
    module = arrow(name)
    if not module.Codec.is_available(codec):
        raise SetupError(f"This pyarrow can't read {name}. Install another one, or unpack the file before.")
    return module.CompressedInputStream(module.PythonFile(file, "r"), codec)


def _lz4_legacy(_file: BufferedReader) -> Any:
    raise SetupError("The file has LZ4's legacy format, which is not read. Unpack it before: `lz4 -d FILE`.")


def _gzip(file: BufferedReader) -> Any:
    return _Gunzip(file)


class _Gunzip(gzip.GzipFile):
    """Reads as gunzip does: what follows the last member and is no gzip is left out, with a warning."""

    def __init__(self, file: BufferedReader) -> None:
        super().__init__(fileobj=file)
        self.warning = ""
        self._begun = False

    def read1(self, size: int = -1) -> bytes:
        try:
            data = super().read1(size)
        except gzip.BadGzipFile as error:
            if not self._begun or not str(error).startswith("Not a gzipped file"):
                raise
            self.warning = "what follows the end of the gzip data is no gzip, and is left out"
            return b""
        self._begun = True
        return data


_OPENERS: Final[Mapping[bytes, Callable[[BufferedReader], Any]]] = {
    b"\x1f\x8b": _gzip,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstandard,
    b"\x04\x22\x4d\x18": _lz4,
    b"\x02\x21\x4c\x18": _lz4_legacy,
}
"""By their first bytes. No record file begins so, but for a CSV whose first column is called `BZh…`."""
BUFFER_BYTES: Final = 1 << 18
_LONGEST: Final = max(map(len, _OPENERS))
_SKIPPABLE: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
"""How a frame begins that decompressors skip: RFC 8878, section 3.1.2; frames of LZ4 have the same."""


class Unpacked(io.RawIOBase):
    """What a compressed file holds. All that comes before damage is read before the damage is an error.

    A buffer over the decompressors' own `readinto` would lose up to its size of good data to the error.
    """

    def __init__(self, source: Any) -> None:
        self._source = source

    @property
    def warning(self) -> str:
        """What is odd about the file, once it is read to its end; empty when nothing is."""
        return getattr(self._source, "warning", "")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def unpacked(file: BufferedReader) -> BinaryIO:
    """What a file holds. Raises SetupError when that needs pyarrow, and it is not there."""
    _skip_frames(file)
    start = file.peek(_LONGEST)
    for magic, unpack in _OPENERS.items():
        if start.startswith(magic):
            return BufferedReader(Unpacked(unpack(file)), BUFFER_BYTES)
    return file


def _skip_frames(file: BufferedReader) -> None:
    """Go on to the first frame with data in it."""
    while _SKIPPABLE.match(file.peek(4)):
        size = int.from_bytes(file.read(8)[4:], "little")
        while size > 0 and (part := file.read(min(size, BUFFER_BYTES))):
            size -= len(part)


def warning_of(file: BinaryIO | None) -> str:
    """What is odd about an unpacked file that was read to its end; empty when nothing is."""
    raw = getattr(file, "raw", None)
    return raw.warning if isinstance(raw, Unpacked) else ""
