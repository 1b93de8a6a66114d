"""What batches of records may be compressed with, as any client may have done it.

All by one library: `lz4` and `zlib` hold Python's lock while they copy what they made, and read one frame at a time.
"""

from collections.abc import Callable, Iterator
from typing import Final

import cramjam

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD: Final = len(_XERIAL) + 4 + 4
"""With two versions behind, of which there is one each."""
_SNAPPY_RATIO: Final = 22
"""A copy of 64 bytes, Snappy's longest, takes three."""


def decompress(codec: int, body: memoryview) -> memoryview:
    """All frames of a body. codec: as the attributes of its batch say. Raises ValueError."""
    if codec not in _READERS:
        raise ValueError(f"no codec has the number {codec}")
    try:
        return _READERS[codec](body)
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error


def _snappy(body: memoryview) -> memoryview:
    """Of Java's clients, blocks of snappy-java's SnappyOutputStream; of others often one block alone."""
    if bytes(body[: len(_XERIAL)]) != _XERIAL:
        return _snappy_block(body)
    return memoryview(b"".join(map(_snappy_block, _xerial_blocks(body))))


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


def _snappy_block(block: memoryview) -> memoryview:
    # The library takes the memory that a block says it needs, and ends the process when there is not so much.
    if cramjam.snappy.decompress_raw_len(block) > _SNAPPY_RATIO * len(block):
        raise ValueError("a block of Snappy says that it is larger than it can be")
    return memoryview(cramjam.snappy.decompress_raw(block))


_READERS: Final[dict[int, Callable[[memoryview], memoryview]]] = {
    GZIP: lambda body: memoryview(cramjam.gzip.decompress(body)),
    SNAPPY: _snappy,
    LZ4: lambda body: memoryview(cramjam.lz4.decompress(body)),
    ZSTD: lambda body: memoryview(cramjam.zstd.decompress(body)),
}
