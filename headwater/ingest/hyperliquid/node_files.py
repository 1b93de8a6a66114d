"""Follows the files of one folder of a node, like `tail -F`.

A file is read as far as it has whole lines. Its position is the inode and the offset, with a checksum of the file's
first bytes: so a replaced or truncated file is noticed, even when it has the inode number of the file before.

A packed file (`9.lz4`) holds the content of the file whose name it extends (`9`), and is complete.
"""

import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from headwater.errors import NodeUnavailable, SetupError
from headwater.ingest.formats.packed import DAMAGE, unpacked
from headwater.ingest.hyperliquid.position import FilePosition, FolderPosition

READ_BYTES: Final = 512 * 1024
MAX_LINE_BYTES: Final = 256 * 1024 * 1024
"""A longer line is split into pieces that can't be decoded; the next line is read again as usual."""
HEAD_BYTES: Final = 128
PARTIAL_LINE_S: Final = 5.0
"""How long later files wait for the end of a partial line."""
RETIRE_S: Final = 60.0
"""A file that did not change for so long, while there is a later one, is done."""
PACKED_SUFFIXES: Final = (".lz4", ".zst", ".gz", ".bz2", ".xz")


class Lines(NamedTuple):
    """Whole lines of a file, without their ends. ends: the offset behind each. first_line: its number, from 0."""

    path: str
    first_line: int
    lines: list[bytes]
    ends: list[int]


def file_order(path: str) -> list[tuple[int, str]]:
    """The sort key of a path, by the numbers in it: hour 9 comes before hour 10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", path)]


class _Content(Protocol):
    """The bytes of a file. is_complete: nothing is added to them any more."""

    is_complete: bool

    def read(self, size: int, offset: int) -> bytes:
        """At most so many bytes behind an offset."""

    def unread(self, offset: int) -> int:
        """How many bytes there are behind an offset; less than 0 when the file was cut."""

    def changed_at(self) -> float:
        """When the file was written to, in seconds since 1970."""

    def close(self) -> None:
        """Close the file."""


class _Plain:
    """A file that the node may still write to."""

    is_complete = False

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY)

    def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def unread(self, offset: int) -> int:
        return os.fstat(self._fd).st_size - offset

    def changed_at(self) -> float:
        return os.fstat(self._fd).st_mtime

    def close(self) -> None:
        os.close(self._fd)


class _Packed:
    """A packed file. Reading before the last position unpacks the file from its beginning."""

    is_complete = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed_at = path.stat().st_mtime
        self._begin()

    def _begin(self) -> None:
        self._file, self._at = self._path.open("rb"), 0
        try:
            self._stream = unpacked(self._file)
        except SetupError as error:
            self._file.close()
            raise SetupError(f"The file {self._path} can't be read. {error.detail}") from error

    def read(self, size: int, offset: int) -> bytes:
        """Raises NodeUnavailable when the file can't be unpacked: it is damaged, or not written to its end yet."""
        try:
            if offset < self._at:
                self.close()
                self._begin()
            while self._at < offset and (passed := self._stream.read(min(READ_BYTES, offset - self._at))):
                self._at += len(passed)
            data = self._stream.read(size) if self._at == offset else b""
        except DAMAGE as error:
            raise NodeUnavailable(
                f"The file {self._path} can't be unpacked: {error}. Put a whole one in its place, or remove it."
            ) from error
        self._at += len(data)
        return data

    def unread(self, _offset: int) -> int:
        return 0

    def changed_at(self) -> float:
        return self._changed_at

    def close(self) -> None:
        self._file.close()


class _File:
    """An open file, and how far it was read.

    path: of the file in the folder, without the suffix of a packed file. position: None for one that was not read yet.
    """

    def __init__(self, path: str, actual: Path, position: FilePosition | None = None) -> None:
        self.path = path
        self.content: _Content = _Packed(actual) if actual.suffix in PACKED_SUFFIXES else _Plain(actual)
        self.position = position or FilePosition(0)
        self.position.inode = _inode(actual)

    def unread(self) -> int:
        return self.content.unread(self.position.offset)

    def is_same(self) -> bool:
        """Whether the file still begins with what was read."""
        return self.unread() >= 0 and zlib.crc32(self._head()) == self.position.head

    def _head(self) -> bytes:
        return self.content.read(min(HEAD_BYTES, self.position.offset), 0)

    def peek(self, size: int = READ_BYTES) -> Lines | None:
        """Whole lines behind what was read, about so many bytes of them."""
        while True:
            data = self.content.read(size, self.position.offset)
            end = data.rfind(b"\n") + 1
            if end or len(data) < size or size >= MAX_LINE_BYTES:
                break
            size *= 2
        is_last = self.content.is_complete and len(data) < size
        if is_last or (not end and len(data) >= MAX_LINE_BYTES):
            end = len(data)
        return self._lines(data[:end]) if end else None

    def _lines(self, data: bytes) -> Lines:
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        ends, at = [], self.position.offset
        last = at + len(data)
        for line in lines:
            at += len(line) + 1
            ends.append(min(at, last))
        return Lines(self.path, self.position.lines, lines, ends)

    def advance(self, offset: int, lines: int) -> None:
        """The file was read up to this offset, which is behind so many lines."""
        position = self.position
        changes = position.offset < HEAD_BYTES
        position.offset, position.lines = offset, lines
        if changes:
            position.head = zlib.crc32(self._head())

    def skip_to_end(self) -> None:
        """Take all whole lines for read. They are counted: a block's height is the number of its line."""
        self.position = FilePosition(self.position.inode)
        while found := self.peek():
            self.advance(found.ends[-1], found.first_line + len(found.lines))

    def restart(self) -> str:
        """Go on at the end of a file that was cut, or at the beginning of one that was written anew. Says which."""
        head = self._head()
        if head and zlib.crc32(head) == self.position.head:
            self.skip_to_end()
            return "was cut"
        self.position = FilePosition(self.position.inode)
        return "was written anew"

    def has_partial_line(self, now: float) -> bool:
        """Whether the file ends with a line that the node may still be writing; later files wait for its end."""
        return self.unread() > 0 and now - self.content.changed_at() < PARTIAL_LINE_S


@dataclass(slots=True)
class FolderReader:
    """Reads the files of one folder in order. Used by one thread.

    now: The clock, in seconds since 1970. lost: A sentence for each file that was replaced, cut or removed, and for
    each partial line that was given up.
    """

    folder: Path
    position: FolderPosition
    now: Callable[[], float] = time.time
    lost: list[str] = field(default_factory=list)
    _paths: list[str] = field(default_factory=list)
    _files: dict[str, _File] = field(default_factory=dict)

    def scan(self) -> None:
        """Look for new files."""
        floor = file_order(self.position.floor)
        found = {path for path in _numbered(self.folder) if file_order(path) > floor}
        self._paths = sorted(found | set(self.position.files), key=file_order)

    def skip_to_end(self) -> None:
        """Take all that is there for read."""
        self.scan()
        *old, last = self._paths or [""]
        self.position.floor = old[-1] if old else ""
        if not last or (file := self._current(last)) is None:
            return
        if file.content.is_complete:
            self._finish(file)
        else:
            file.skip_to_end()
            self._paths, self.position.files = [last], {last: file.position}

    def changed_at(self) -> float:
        """When the newest file was written to; 0 without one."""
        newest = self._actual(self._paths[-1]) if self._paths else None
        try:
            return newest.stat().st_mtime if newest else 0.0
        except FileNotFoundError:
            return 0.0

    def peek(self, size: int = READ_BYTES) -> Lines | None:
        """The next whole lines, about so many bytes of them, or None. `advance` then notes how many were read."""
        for path in list(self._paths):
            file = self._current(path)
            if file is None:
                continue
            if lines := file.peek(size):
                return lines
            if file.has_partial_line(self.now()):
                return None
            if self._is_done(file):
                self._finish(file)
        return None

    def advance(self, lines: Lines, count: int) -> None:
        """The first so many lines were read."""
        if count:
            file = self._files[lines.path]
            file.advance(lines.ends[count - 1], lines.first_line + count)
            self.position.files[lines.path] = file.position

    def close(self) -> None:
        """Close all files."""
        for path in list(self._files):
            self._files.pop(path).content.close()

    def _is_done(self, file: _File) -> bool:
        """Whether the file is complete: it is packed, or it is unchanged and a later file has content."""
        if file.path != self._paths[0]:
            return False
        return file.content.is_complete or (
            self.now() - file.content.changed_at() >= RETIRE_S and self._has_later(file.path)
        )

    def _has_later(self, path: str) -> bool:
        last = self._actual(self._paths[-1])
        try:
            return path != self._paths[-1] and last is not None and last.stat().st_size > 0
        except FileNotFoundError:
            return False

    def _finish(self, file: _File) -> None:
        """Mark a file as done: this file and all before it are not read again."""
        self._close(file)
        self.position.files.pop(file.path, None)
        self.position.floor = file.path
        self._paths.remove(file.path)

    def _current(self, path: str) -> _File | None:
        """The file at a path; the one that was there before, as long as it has something to read."""
        file = self._files.get(path) or self._open(path)
        if file is None:
            return None
        actual = self._actual(path)
        if actual is not None and _inode(actual) == file.position.inode:
            if not file.content.is_complete and not file.is_same():
                what = file.restart()
                self.position.files[path] = file.position
                self.lost.append(f"{path} {what}; lines that were not read by then are lost")
            return file
        if file.peek() or file.has_partial_line(self.now()):
            return file
        self._close(file)
        if actual is None or actual.suffix not in PACKED_SUFFIXES:
            self.position.files.pop(path, None)
        return self._open(path)

    def _open(self, path: str) -> _File | None:
        position, actual = self.position.files.get(path), self._actual(path)
        try:
            if position is not None and (actual is None or _inode(actual) != position.inode):
                file = self._find(path, position)
                if file is None:
                    self.lost.append(f"{path} was removed; lines that were not read by then are lost")
                    del self.position.files[path]
            else:
                file = None
            if file is None and actual is not None:
                file = _File(path, actual, self.position.files.get(path))
        except FileNotFoundError:
            return None
        if file is not None:
            self._files[path] = file
        return file

    def _close(self, file: _File) -> None:
        """Let go of a file."""
        if rest := file.unread():
            self.lost.append(f"{file.path} ends within a line; {rest} bytes are left out")
        self._files.pop(file.path).content.close()

    def _actual(self, path: str) -> Path | None:
        """The existing file of a path: the plain one, or a packed one."""
        plain = self.folder / path
        packed = (plain.with_name(plain.name + suffix) for suffix in PACKED_SUFFIXES)
        return next((found for found in (plain, *packed) if found.exists()), None)

    def _find(self, path: str, position: FilePosition) -> _File | None:
        """A file that was read before, and now has another name (it was rotated), or was packed."""
        plain = self.folder / path
        for entry in _entries(plain.parent):
            is_packed = entry.name.removeprefix(plain.name) in PACKED_SUFFIXES
            if (is_packed or entry.inode() == position.inode) and entry.is_file():
                file = _File(path, Path(entry.path), msgspec.structs.replace(position))
                if file.is_same():
                    self.position.files[path] = file.position
                    return file
                file.content.close()
        return None


def _inode(path: Path) -> int:
    """Raises FileNotFoundError."""
    return path.stat().st_ino


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _numbered(folder: Path, below: str = "") -> Iterator[str]:
    """Paths of the files that are named by a number, as the node's are, without the suffix of packed ones."""
    for entry in _entries(folder / below):
        path = f"{below}{entry.name}"
        if entry.is_dir():
            yield from _numbered(folder, f"{path}/")
            continue
        plain, dot, suffix = path.rpartition(".")
        path = plain if dot and f".{suffix}" in PACKED_SUFFIXES else path
        if path.rpartition("/")[2].isdecimal():
            yield path
