"""Files that a node, a disk and an operator change."""

import gzip
import lzma
import os
import sys
import time
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SetupError
from headwater.ingest.hyperliquid import folder_reader
from headwater.ingest.hyperliquid.folder_reader import FolderReader, Loss, file_order
from headwater.ingest.hyperliquid.position import FolderPosition
from headwater.record_files.formats.compression import decompressed
from tests.unit.ingest.hyperliquid.node_files import append


class Follower:
    """Read all lines, each time with a new reader, as after a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = b"{}"
        self.ahead_s = 0.0
        self.lost: list[Loss] = []
        self.reader: FolderReader | None = None

    def begin(self) -> FolderReader:
        self.end()
        state = msgspec.json.decode(self.state, type=FolderPosition)
        self.reader = FolderReader(self.folder, state, lambda: time.time() + self.ahead_s)
        return self.reader

    def end(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def read(self, restarts: bool = True) -> list[bytes]:
        reader = self.begin() if restarts or self.reader is None else self.reader
        reader.scan()
        read_lines: list[bytes] = []
        while lines := reader.peek():
            reader.advance(lines, len(lines.lines))
            read_lines += lines.lines
        self.state = msgspec.json.encode(reader.position)
        self.lost += reader.losses
        reader.losses.clear()
        return read_lines


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


@pytest.fixture(params=[True, False], ids=["restarted", "running"])
def restarts(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_partial_line_delays_later_files(follower: Follower, restarts: bool) -> None:
    append(follower.folder / "9", b"one\ntw")
    append(follower.folder / "10", b"three\n")
    assert follower.read(restarts) == [b"one"]
    append(follower.folder / "9", b"o\n")
    assert follower.read(restarts) == [b"two", b"three"]


def test_an_endless_partial_line_is_reported(follower: Follower, restarts: bool) -> None:
    append(follower.folder / "9", b"one\ntw")
    append(follower.folder / "10", b"three\n")
    follower.ahead_s = 61
    assert follower.read(restarts) == [b"one", b"three"]
    assert follower.lost == [Loss("9", "the file ends within a line; 2 bytes are skipped")]
    assert follower.read(restarts) == []
    assert list(msgspec.json.decode(follower.state)["places"]) == ["10"]


def test_several_files_grow_at_once(follower: Follower, restarts: bool) -> None:
    for number in range(3):
        append(follower.folder / "9", b"a%d\n" % number)
        append(follower.folder / "10", b"b%d\n" % number)
        assert follower.read(restarts) == [b"a%d" % number, b"b%d" % number]


def test_a_renamed_file_is_read_to_its_end_before_its_successor(follower: Follower, restarts: bool) -> None:
    file = follower.folder / "9"
    append(file, b"one\n")
    assert follower.read(restarts) == [b"one"]
    append(file, b"two\n")
    file.rename(follower.folder / "9.old")
    append(file, b"three\n")
    assert follower.read(restarts) == [b"two", b"three"]
    assert follower.lost == []


def test_a_removed_file_is_read_to_its_end_while_it_is_open(follower: Follower) -> None:
    file = follower.folder / "9"
    append(file, b"one\n")
    assert follower.read() == [b"one"]
    append(file, b"two\n")
    file.unlink()
    assert follower.read(restarts=False) == [b"two"]
    append(file, b"three\n")
    assert follower.read(restarts=False) == [b"three"]
    assert follower.lost == []


def test_a_file_that_was_removed_in_between_is_reported(follower: Follower) -> None:
    append(follower.folder / "9", b"one\n")
    assert follower.read() == [b"one"]
    follower.end()
    (follower.folder / "9").unlink()
    assert follower.read() == []
    assert follower.lost == [Loss("9", "the file was removed; lines that were not read by then are lost")]


def test_a_rewritten_file(follower: Follower, restarts: bool) -> None:
    file = follower.folder / "9"
    append(file, b"one\ntwo\n")
    assert follower.read(restarts) == [b"one", b"two"]
    file.write_bytes(b"other, and longer than before\n")  # the same inode
    assert follower.read(restarts) == [b"other, and longer than before"]
    assert follower.lost == [Loss("9", "the file was rewritten; lines that were not read by then are lost")]


def test_a_truncated_file_is_read_from_its_new_end(follower: Follower, restarts: bool) -> None:
    file = follower.folder / "9"
    content = b"".join(b"line %03d of a file\n" % number for number in range(20))
    append(file, content)
    assert len(follower.read(restarts)) == 20
    os.truncate(file, len(content) - 25)
    assert follower.read(restarts) == []
    append(file, b"!\nnew\n")
    assert follower.read(restarts) == [b"line 018 of a!", b"new"]


def test_lines_longer_than_a_read(follower: Follower, restarts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_reader, "READ_BYTES", 16)
    monkeypatch.setattr(folder_reader, "MAX_LINE_BYTES", 64)
    append(follower.folder / "9", b"x" * 50 + b"\nshort\n" + b"y" * 200 + b"\nlast\n")
    read_lines = follower.read(restarts)
    assert read_lines[:2] == [b"x" * 50, b"short"]
    assert b"".join(read_lines[2:-1]) == b"y" * 200
    assert read_lines[-1] == b"last"


def test_start_after_existing_lines(follower: Follower) -> None:
    for hour in (7, 8, 9):
        append(follower.folder / f"hourly/20260101/{hour}", b"old\n")
    append(follower.folder / "hourly/20260101/9", b"hal")
    follower.begin().skip_to_end()
    assert follower.reader is not None
    follower.state = msgspec.json.encode(follower.reader.position)
    assert follower.read() == []
    append(follower.folder / "hourly/20260101/9", b"f\nnew\n")
    append(follower.folder / "hourly/20260101/10", b"newer\n")
    assert follower.read() == [b"half", b"new", b"newer"]


def test_only_files_named_by_a_number_are_read(follower: Follower) -> None:
    append(follower.folder / "20260101/9", b"one\n")
    append(follower.folder / "20260101/9.lz4", b"packed\n")
    append(follower.folder / "20260101/notes", b"other\n")
    assert follower.read() == [b"one"]


def lz4(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "lz4", asbytes=True)
    return packed


PACKS = {".lz4": lz4, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACKS)
def test_compressed_files_replace_the_uncompressed_ones(follower: Follower, restarts: bool, suffix: str) -> None:
    append(follower.folder / f"hourly/9{suffix}", PACKS[suffix](b"one\ntwo\nthe last line without an end"))
    append(follower.folder / f"hourly/10{suffix}", PACKS[suffix](b"three\n"))
    append(follower.folder / "hourly/10", b"four\n")
    append(follower.folder / f"hourly/notes{suffix}", PACKS[suffix](b"other\n"))
    assert follower.read(restarts) == [b"one", b"two", b"the last line without an end", b"four"]
    assert follower.read(restarts) == []
    assert follower.lost == []


@pytest.mark.parametrize("size", [10, 300], ids=["short", "longer than the checksum"])
@pytest.mark.parametrize("read", [0, 1, 2])
def test_a_file_that_is_compressed_while_it_is_read(follower: Follower, restarts: bool, size: int, read: int) -> None:
    """An operator compresses the file of a past hour. No line is missing or repeated."""
    parts = [b"a" * size, b"b" * size]
    for part in parts[:read]:
        append(follower.folder / "9", part + b"\n")
        assert follower.read(restarts) == [part]
    if restarts:
        follower.end()
    for part in parts[read:]:
        append(follower.folder / "9", part + b"\n")
    append(follower.folder / "9.lz4", lz4((follower.folder / "9").read_bytes()))
    (follower.folder / "9").unlink()
    append(follower.folder / "10", b"next\n")
    assert follower.read(restarts) == [*parts[read:], b"next"]
    assert follower.read(restarts) == []
    assert follower.lost == []


def test_a_compressed_file_that_is_longer_than_a_read(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_reader, "READ_BYTES", 1000)
    content = [b"line %04d" % number for number in range(2000)]
    append(follower.folder / "9.lz4", lz4(b"\n".join(content)))
    reader, read_lines = follower.begin(), list[bytes]()
    reader.scan()
    while lines := reader.peek(1000):
        reader.advance(lines, max(1, len(lines.lines) // 2))
        read_lines += lines.lines[: max(1, len(lines.lines) // 2)]
        if len(read_lines) % 7 == 0:
            follower.state = msgspec.json.encode(reader.position)
            reader = follower.begin()
            reader.scan()
    assert read_lines == content


def test_a_compressed_file_is_decompressed_once(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[BufferedReader] = []

    def counted(file: BufferedReader) -> BinaryIO:
        opened.append(file)
        return decompressed(file)

    monkeypatch.setattr(folder_reader, "decompressed", counted)
    content = [b"line %04d" % number for number in range(2000)] + [b"x" * 3000, b"last"]
    append(follower.folder / "9.lz4", lz4(b"\n".join(content)))
    reader, read_lines = follower.begin(), list[bytes]()
    reader.scan()
    while lines := reader.peek(1000):
        count = max(1, len(lines.lines) // 2)
        reader.advance(lines, count)
        read_lines += lines.lines[:count]
    assert read_lines == content
    assert len(opened) == 1


def test_start_after_compressed_files(follower: Follower) -> None:
    for hour in (8, 9):
        append(follower.folder / f"{hour}.lz4", lz4(b"old\n"))
    follower.begin().skip_to_end()
    assert follower.reader is not None
    follower.state = msgspec.json.encode(follower.reader.position)
    append(follower.folder / "10.lz4", lz4(b"new\n"))
    assert follower.read() == [b"new"]


def test_packed_files_need_pyarrow(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    append(follower.folder / "9.lz4", lz4(b"one\n"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SetupError, match=r"9\.lz4 can't be read\. LZ4 needs the extra `parquet`"):
        follower.read()


def test_a_folder_that_does_not_exist_yet(follower: Follower) -> None:
    follower.folder /= "later"
    assert follower.read() == []
    append(follower.folder / "1", b"one\n")
    assert follower.read() == [b"one"]


def test_order() -> None:
    paths = ["hourly/20260102/1", "hourly/20260101/10", "hourly/20260101/9", ""]
    assert sorted(paths, key=file_order) == list(reversed(paths))


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 30)),
        st.tuples(st.sampled_from(["read", "restart", "rotate", "next", "anew"]), st.just(0)),
    ),
    max_size=40,
)


@given(CHANGES)
def test_every_line_is_read_once_during_any_changes(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int]]
) -> None:
    """A writer appends any number of bytes.

    Files are rotated and rewritten at any time after all lines were read.
    """
    follower = Follower(tmp_path_factory.mktemp("tail"))
    text = b"".join(b"line %04d\n" % number for number in range(150))
    written, rotations, hour, read_lines = 0, 0, 0, list[bytes]()
    for change, size in changes:
        file = follower.folder / str(hour)
        if change == "write":
            append(file, text[written : written + size])
            written += size
        elif change in ("read", "restart"):
            read_lines += follower.read(restarts=change == "restart")
        elif change == "rotate" and file.exists() and text[:written].endswith(b"\n"):
            rotations += 1
            read_lines += follower.read(
                restarts=False
            )  # a file that is renamed twice between two reads cannot be found
            file.rename(follower.folder / f"{hour}.{rotations}")
        elif change == "anew" and file.exists() and text[:written].endswith(b"\n"):
            read_lines += follower.read(restarts=False)
            file.write_bytes(b"")
        elif change == "next" and text[:written].endswith(b"\n"):
            hour += 1
    end = written if text[:written].endswith(b"\n") else text.index(b"\n", written) + 1
    append(follower.folder / str(hour), text[written:end])
    read_lines += follower.read()
    follower.end()
    assert read_lines == text[:end].splitlines()
