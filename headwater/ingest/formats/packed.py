"""Compressed files: gzip, bzip2, xz and Zstandard, told apart by how they begin."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Mapping
from io import BufferedReader
from typing import Any, BinaryIO, Final

from headwater.errors import SetupError


def arrow(what: str) -> Any:
    """The module pyarrow, which is an extra. Raises SetupError that names it."""
    try:
        import pyarrow
    except ImportError as error:
        raise SetupError(f"{what} needs pyarrow. Install it: `.venv/bin/pip install -e '.[parquet]'`.") from error
    return pyarrow


def _zstandard(file: BufferedReader) -> Any:
    module = arrow("Zstandard")
    if not module.Codec.is_available("zstd"):
        raise SetupError("This pyarrow can't read Zstandard. Install another one, or unpack the file before.")
    return module.CompressedInputStream(module.PythonFile(file, "r"), "zstd")


_OPENERS: Final[Mapping[bytes, Callable[[BufferedReader], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstandard,
}
"""By their first bytes. No record file begins so, but for a CSV whose first column is called `BZh…`."""
BUFFER_BYTES: Final = 1 << 18
_LONGEST: Final = max(map(len, _OPENERS))


def unpacked(file: BufferedReader) -> BinaryIO:
    """What a file holds. Raises SetupError when that needs pyarrow, and it is not there."""
    start = file.peek(_LONGEST)
    for magic, unpack in _OPENERS.items():
        if start.startswith(magic):
            return BufferedReader(unpack(file), BUFFER_BYTES)  # lines of gzip's own reader cost half again as much
    return file
