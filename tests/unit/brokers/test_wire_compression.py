"""Bodies of batches as clients of Kafka compress them."""

import gzip
import random
import struct
from typing import Any

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.brokers.wire.compression import GZIP, LZ4, MAX_BODY_BYTES, SNAPPY, ZSTD, decompress

TEXT = b"".join(random.Random(3).randbytes(70) * 3 for _ in range(2000))


def xerial(*blocks: bytes) -> bytes:
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


def snappy(text: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(text))


def frame(**options: Any) -> bytes:
    return bytes(lz4.frame.compress(TEXT, **options))


SKIPPED = struct.pack("<II", 0x184D2A50, 3) + b"abc"
"""A frame of LZ4 or Zstandard for somebody else."""
HALF = len(TEXT) // 2
BODIES: dict[str, tuple[int, bytes]] = {
    "gzip": (GZIP, gzip.compress(TEXT)),
    "gzip, several members": (GZIP, gzip.compress(TEXT[:HALF]) + gzip.compress(TEXT[HALF:])),
    "snappy": (SNAPPY, snappy(TEXT)),
    "snappy, xerial": (SNAPPY, xerial(snappy(TEXT))),
    "snappy, xerial, several blocks": (
        SNAPPY,
        xerial(*(snappy(TEXT[at : at + 5000]) for at in range(0, len(TEXT), 5000))),
    ),
    "snappy, xerial, several streams": (SNAPPY, xerial(snappy(TEXT[:HALF])) + xerial(snappy(TEXT[HALF:]))),
    "lz4": (LZ4, frame(store_size=False)),
    "lz4, size": (LZ4, frame(store_size=True)),
    "lz4, linked blocks": (LZ4, frame(block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB)),
    "lz4, single blocks": (LZ4, frame(block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False)),
    "lz4, checksums": (LZ4, frame(content_checksum=True, block_checksum=True)),
    "lz4, large blocks": (LZ4, bytes(lz4.frame.compress(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX4MB))),
    "lz4, several frames": (
        LZ4,
        bytes(lz4.frame.compress(TEXT[:HALF])) + bytes(lz4.frame.compress(TEXT[HALF:], store_size=False)),
    ),
    "lz4, a frame to skip": (LZ4, SKIPPED + frame()),
    "zstd": (ZSTD, bytes(cramjam.zstd.compress(TEXT))),
    "zstd, several frames": (
        ZSTD,
        bytes(cramjam.zstd.compress(TEXT[:HALF])) + bytes(cramjam.zstd.compress(TEXT[HALF:])),
    ),
    "zstd, a frame to skip": (ZSTD, SKIPPED + bytes(cramjam.zstd.compress(TEXT))),
}


def bomb(codec: int, size: int) -> bytes:
    """Zeros, as small as they get."""
    if codec == SNAPPY:
        whole, rest = divmod(size, 1 << 20)
        return xerial(*[snappy(bytes(1 << 20))] * whole, snappy(bytes(rest)))
    library = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec]
    return bytes(library.compress(bytes(size)))


class TestCompression:
    @pytest.mark.parametrize("name", BODIES)
    def test_is_undone(self, name: str) -> None:
        codec, body = BODIES[name]
        assert decompress(codec, memoryview(body)) == TEXT

    @pytest.mark.parametrize("name", BODIES)
    def test_what_is_cut_off_is_refused(self, name: str) -> None:
        codec, body = BODIES[name]
        for size in {0, 1, 3, len(body) // 3, len(body) - 9, len(body) - 1}:
            with pytest.raises(ValueError, match=r"."):
                decompress(codec, memoryview(body)[:size])

    def test_a_size_that_cant_be_takes_no_memory(self) -> None:
        with pytest.raises(ValueError, match="larger than it can be"):
            decompress(SNAPPY, memoryview(b"\xff\xff\xff\xff\x0f\x00a"))

    @pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
    def test_what_becomes_too_much_is_refused(self, codec: int) -> None:
        with pytest.raises(ValueError, match="more than 128 MiB are not unpacked"):
            decompress(codec, memoryview(bomb(codec, MAX_BODY_BYTES + 1)))

    @pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
    def test_the_most_that_is_not(self, codec: int) -> None:
        found = decompress(codec, memoryview(bomb(codec, MAX_BODY_BYTES)))
        assert len(found) == MAX_BODY_BYTES
        assert (found[0], found[-1]) == (0, 0)

    def test_nor_is_it_in_a_single_block_of_snappy(self) -> None:
        with pytest.raises(ValueError, match="more than 128 MiB"):
            decompress(SNAPPY, memoryview(snappy(bytes(MAX_BODY_BYTES + 1))))

    def test_large_ones_are_read_whole(self) -> None:
        text = random.Random(4).randbytes(1 << 20) * 2
        for codec, library in ((GZIP, cramjam.gzip), (LZ4, cramjam.lz4), (ZSTD, cramjam.zstd)):
            assert decompress(codec, memoryview(bytes(library.compress(text)))) == text

    @given(st.sampled_from([0, 1, 60, 4000, 70_000]), st.sampled_from([b"\0", b"ab", b"abcdefg"]))
    def test_what_snappy_makes_smallest_is_not_refused(self, times: int, text: bytes) -> None:
        assert decompress(SNAPPY, memoryview(snappy(text * times))) == text * times
