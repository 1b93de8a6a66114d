"""What batches of records may be compressed with, as any client may have done it.

All by one library: `lz4` and `zlib` hold Python's lock while they copy what they made, and read one frame at a time.
"""

import mmap
from collections.abc import Callable, Iterator
from typing import Any, Final

import cramjam

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

MAX_BODY_BYTES: Final = 128 << 20
"""What a body may become: a few kB of Zstandard can be gigabytes, which would end the process."""
_TOO_MUCH: Final = f"more than {MAX_BODY_BYTES >> 20} MiB are not unpacked"

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD: Final = len(_XERIAL) + 4 + 4
"""With two versions behind, of which there is one each."""
_SNAPPY_RATIO: Final = 22
"""A copy of 64 bytes, Snappy's longest, takes three."""


def decompress(codec: int, body: memoryview) -> memoryview:
    """All frames of a body. codec: as the attributes of its batch say. Raises ValueError, also for more than
    MAX_BODY_BYTES.
    """
    if codec not in _READERS:
        raise ValueError(f"no codec has the number {codec}")
    try:
        return _READERS[codec](body)
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error


def _bounded(library: Any, most: float) -> Callable[[memoryview], memoryview]:
    """most: bytes that the format can make of one, which spares small bodies the bound."""

    def read(body: memoryview) -> memoryview:
        if len(body) * most <= MAX_BODY_BYTES:
            return memoryview(library.decompress(body))
        room = mmap.mmap(-1, MAX_BODY_BYTES)  # the system gives memory to what is written alone
        try:
            size: int = library.decompress_into(body, room)
        except cramjam.DecompressionError as error:
            raise ValueError(f"{error}; {_TOO_MUCH}") from error
        return memoryview(room)[:size]

    return read


def _snappy(body: memoryview) -> memoryview:
    """Of Java's clients, blocks of snappy-java's SnappyOutputStream; of others often one block alone."""
    framed = bytes(body[: len(_XERIAL)]) == _XERIAL
    blocks = [*_xerial_blocks(body)] if framed else [body]
    if sum(map(_snappy_size, blocks)) > MAX_BODY_BYTES:
        raise ValueError(_TOO_MUCH)
    return memoryview(b"".join(map(cramjam.snappy.decompress_raw, blocks)))


def _xerial_blocks(body: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(body):
        if bytes(body[at : at + len(_XERIAL)]) == _XERIAL:  # streams may be one behind the other
            at += _XERIAL_HEAD
            continue
        start = at + 4
        at = start + int.from_bytes(body[at:start], "big")
        if at > len(body):
            raise ValueError("a block of Snappy is cut off")
        yield body[start:at]


def _snappy_size(block: memoryview) -> int:
    # The library takes the memory that a block says it needs, and ends the process when there is not so much.
    size: int = cramjam.snappy.decompress_raw_len(block)
    if size > _SNAPPY_RATIO * len(block):
        raise ValueError("a block of Snappy says that it is larger than it can be")
    return size


_READERS: Final[dict[int, Callable[[memoryview], memoryview]]] = {
    GZIP: _bounded(cramjam.gzip, 1032),  # 258 bytes from two bits, https://zlib.net/zlib_tech.html
    SNAPPY: _snappy,
    LZ4: _bounded(cramjam.lz4, 256),  # 255 bytes from one of a match's length
    ZSTD: _bounded(cramjam.zstd, float("inf")),
}
