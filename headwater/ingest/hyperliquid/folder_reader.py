"""Follows the files of one folder of a node, like `tail -F`.

Only complete lines of a file are read. The position is the inode and the offset, with a checksum of the first bytes, so
that a replaced or truncated file is detected even if its inode number is the same.

A compressed file (`9.lz4`) is complete, and has the content of the file without the suffix (`9`).
"""

import enum
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from headwater.errors import NodeUnavailable, SetupError
from headwater.ingest.hyperliquid.position import FilePosition, FolderPosition
from headwater.record_files.formats.compression import DAMAGE_ERRORS, decompressed

READ_BYTES: Final = 512 * 1024
MAX_LINE_BYTES: Final = 256 * 1024 * 1024
"""A longer line is split into pieces, which can't be decoded. The next line is read as usual."""
HEAD_BYTES: Final = 128
PARTIAL_LINE_TIMEOUT_S: Final = 5.0
"""The time for which later files wait for the end of a partial line."""
FINISHED_AFTER_S: Final = 60.0
"""The oldest file that was not changed for this long is finished if the newest file has content."""
COMPRESSED_SUFFIXES: Final = (".lz4", ".zst", ".gz", ".bz2", ".xz")


class Lines(NamedTuple):
    """Complete lines of a file.

    Attributes:
        path: The path of the file in its folder.
        first_line: The index of the first line, from 0.
        lines: The lines without newlines.
        ends: The byte offset after each line.
    """

    path: str
    first_line: int
    lines: list[bytes]
    ends: list[int]


class Loss(NamedTuple):
    """Lines of a file that are lost.

    Attributes:
        path: The path of the file in its folder.
        reason: What happened to the file, and which lines are lost.
    """

    path: str
    reason: str


def file_order(path: str) -> list[tuple[int, str]]:
    """Return the sort key of a path, by the numbers in it: hour 9 comes before hour 10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", path)]


class _Content(Protocol):
    """The content of a file. `is_complete` says whether the file will not grow any more."""

    is_complete: bool

    def read(self, size: int, offset: int) -> bytes:
        """Return at most this many bytes from an offset."""

    def unread(self, offset: int) -> int:
        """Return the number of bytes after an offset.

        The number is negative if the file was truncated, and 0 if it is unknown.
        """

    def changed_at(self) -> float:
        """Return the time of the last write, in seconds since 1970."""

    def close(self) -> None:
        """Close the file."""


class _PlainFile:
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


class _CompressedFile:
    """A compressed file.

    The bytes of the last read are kept, because the next read usually begins within them. Reading before these bytes
    decompresses the file again from its beginning.
    """

    is_complete = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed_at = path.stat().st_mtime
        self._open_stream()

    def _open_stream(self) -> None:
        self._file, self._kept, self._kept_from = self._path.open("rb"), b"", 0
        try:
            self._stream = decompressed(self._file)
        except SetupError as error:
            self._file.close()
            raise SetupError(f"The file {self._path} can't be read. {error.detail}") from error

    def read(self, size: int, offset: int) -> bytes:
        """Return bytes.

        Raises NodeUnavailable when the file is damaged, or not completely written yet.
        """
        try:
            self._skip_to(offset)
            data = self._kept[offset - self._kept_from :]
            if len(data) < size:
                data += self._stream.read(size - len(data))
                self._kept, self._kept_from = data, offset
        except DAMAGE_ERRORS as error:
            raise NodeUnavailable(
                f"The file {self._path} can't be decompressed: {error}. Replace it by a complete file, or remove it."
            ) from error
        return data[:size]

    def _skip_to(self, offset: int) -> None:
        """Read until the kept bytes contain the offset or end at it, or until the file ends."""
        if offset < self._kept_from:
            self.close()
            self._open_stream()
        while (end := self._kept_from + len(self._kept)) < offset:
            self._kept, self._kept_from = self._stream.read(min(READ_BYTES, offset - end)), end
            if not self._kept:
                return

    def unread(self, _offset: int) -> int:
        """Return 0, because the size of the decompressed content is not known."""
        return 0

    def changed_at(self) -> float:
        return self._changed_at

    def close(self) -> None:
        self._file.close()


class _Change(enum.Enum):
    """A change of a file other than the growth at its end.

    The value completes a message about lost lines.
    """

    TRUNCATED = "was truncated"
    REWRITTEN = "was rewritten"


class _File:
    """An open file with its position.

    Args:
        path: The path in the folder, without the suffix of a compressed file.
        actual: The path of the existing file, with the suffix.
        position: The position; None for a file that was not read.
    """

    def __init__(self, path: str, actual: Path, position: FilePosition | None = None) -> None:
        self.path = path
        self.content: _Content = _CompressedFile(actual) if actual.suffix in COMPRESSED_SUFFIXES else _PlainFile(actual)
        self.position = position or FilePosition(0)
        self.position.inode = _inode(actual)

    def unread(self) -> int:
        return self.content.unread(self.position.offset)

    def is_same(self) -> bool:
        """Return whether the file still begins with the bytes that were read."""
        return self.unread() >= 0 and zlib.crc32(self._head()) == self.position.head_crc

    def _head(self) -> bytes:
        return self.content.read(min(HEAD_BYTES, self.position.offset), 0)

    def peek(self, size: int = READ_BYTES) -> Lines | None:
        """Return the complete lines after the position, about this many bytes.

        Returns None if there are none.
        """
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
        return Lines(self.path, self.position.line_count, lines, ends)

    def advance(self, offset: int, line_count: int) -> None:
        """Set the position to an offset, before which there are `line_count` lines."""
        position = self.position
        has_whole_head = position.offset >= HEAD_BYTES
        position.offset, position.line_count = offset, line_count
        if not has_whole_head:
            position.head_crc = zlib.crc32(self._head())

    def skip_to_end(self) -> None:
        """Mark all complete lines as read.

        The lines are counted, because the height of a block is derived from its line number.
        """
        self.position = FilePosition(self.position.inode)
        while lines := self.peek():
            self.advance(lines.ends[-1], lines.first_line + len(lines.lines))

    def resume_after_change(self) -> _Change:
        """Set the position to the end of a truncated file, or to the beginning of a rewritten file.

        Returns what happened to the file.
        """
        head = self._head()
        if head and zlib.crc32(head) == self.position.head_crc:
            self.skip_to_end()
            return _Change.TRUNCATED
        self.position = FilePosition(self.position.inode)
        return _Change.REWRITTEN

    def has_partial_line(self, now: float) -> bool:
        """Return whether the node may still be writing the last line, so that later files wait."""
        return self.unread() > 0 and now - self.content.changed_at() < PARTIAL_LINE_TIMEOUT_S


@dataclass(slots=True)
class FolderReader:
    """Reads the files of one folder in order. Used by one thread.

    Attributes:
        directory: The path of the folder.
        position: The position in the files of the folder.
        now: The clock, in seconds since 1970.
        losses: One for each file that was rewritten, truncated or removed, and for each partial line that was
            dropped.
    """

    directory: Path
    position: FolderPosition
    now: Callable[[], float] = time.time
    _: KW_ONLY
    losses: list[Loss] = field(default_factory=list)
    _paths: list[str] = field(default_factory=list)
    _files: dict[str, _File] = field(default_factory=dict)

    def scan(self) -> None:
        """Look for new files."""
        floor = file_order(self.position.floor)
        new = {path for path in _numbered(self.directory) if file_order(path) > floor}
        self._paths = sorted(new | set(self.position.files), key=file_order)

    def skip_to_end(self) -> None:
        """Mark all existing lines as read."""
        self.scan()
        *older, last = self._paths or [""]
        self.position.floor = older[-1] if older else ""
        if not last or (file := self._current(last)) is None:
            return
        if file.content.is_complete:
            self._finish(file)
        else:
            file.skip_to_end()
            self._paths, self.position.files = [last], {last: file.position}

    def changed_at(self) -> float:
        """Return the time of the last write to the newest file; 0 without a file."""
        newest = self._actual(self._paths[-1]) if self._paths else None
        try:
            return newest.stat().st_mtime if newest else 0.0
        except FileNotFoundError:
            return 0.0

    def peek(self, size: int = READ_BYTES) -> Lines | None:
        """Return the next complete lines, about this many bytes; None if there are none.

        `advance` marks the lines as read.
        """
        for path in list(self._paths):
            file = self._current(path)
            if file is None:
                continue
            if lines := file.peek(size):
                return lines
            if file.has_partial_line(self.now()):
                return None
            if self._is_finished(file):
                self._finish(file)
        return None

    def advance(self, lines: Lines, count: int) -> None:
        """Mark the first `count` of these lines as read."""
        if count:
            file = self._files[lines.path]
            file.advance(lines.ends[count - 1], lines.first_line + count)
            self.position.files[lines.path] = file.position

    def close(self) -> None:
        """Close all files."""
        for path in list(self._files):
            self._files.pop(path).content.close()

    def _is_finished(self, file: _File) -> bool:
        """Return whether a file is finished.

        The oldest file is finished when it is compressed, or unchanged for FINISHED_AFTER_S while the newest file is
        another one and has content.
        """
        if file.path != self._paths[0]:
            return False
        return file.content.is_complete or (
            self.now() - file.content.changed_at() >= FINISHED_AFTER_S and self._has_later(file.path)
        )

    def _has_later(self, path: str) -> bool:
        last = self._actual(self._paths[-1])
        try:
            return path != self._paths[-1] and last is not None and last.stat().st_size > 0
        except FileNotFoundError:
            return False

    def _finish(self, file: _File) -> None:
        """Mark a file as finished, so that this file and all files before it are not read again."""
        self._close(file)
        self.position.files.pop(file.path, None)
        self.position.floor = file.path
        self._paths.remove(file.path)

    def _current(self, path: str) -> _File | None:
        """Return the open file of a path; None when the file does not exist.

        A file that was replaced is returned until it is read to its end.
        """
        file = self._files.get(path) or self._open(path)
        if file is None:
            return None
        actual = self._actual(path)
        if actual is not None and _inode(actual) == file.position.inode:
            self._handle_change(file)
            return file
        if file.peek() or file.has_partial_line(self.now()):
            return file
        self._close(file)
        if actual is None or actual.suffix not in COMPRESSED_SUFFIXES:
            self.position.files.pop(path, None)
        return self._open(path)

    def _handle_change(self, file: _File) -> None:
        """Correct the position in a file that was truncated or rewritten, and record the loss."""
        if not file.content.is_complete and not file.is_same():
            change = file.resume_after_change()
            self.position.files[file.path] = file.position
            self.losses.append(Loss(file.path, f"the file {change.value}; lines that were not read by then are lost"))

    def _open(self, path: str) -> _File | None:
        """Open the file of a path, also when it was rotated or compressed.

        Returns None when the file does not exist.
        """
        try:
            file = self._open_moved(path) or self._open_actual(path)
        except FileNotFoundError:
            return None
        if file is not None:
            self._files[path] = file
        return file

    def _open_moved(self, path: str) -> _File | None:
        """Open the file of the stored position under its new name; None when it has no new name.

        Drops the position, and records the loss, when the file was removed.
        """
        position, actual = self.position.files.get(path), self._actual(path)
        if position is None or (actual is not None and _inode(actual) == position.inode):
            return None
        file = self._find_moved(path, position)
        if file is None:
            self.losses.append(Loss(path, "the file was removed; lines that were not read by then are lost"))
            del self.position.files[path]
        else:
            self.position.files[path] = file.position
        return file

    def _open_actual(self, path: str) -> _File | None:
        actual = self._actual(path)
        return None if actual is None else _File(path, actual, self.position.files.get(path))

    def _close(self, file: _File) -> None:
        """Close a file, and record the bytes of an incomplete last line as lost."""
        if (rest := file.unread()) > 0:
            self.losses.append(Loss(file.path, f"the file ends within a line; {rest} bytes are skipped"))
        self._files.pop(file.path).content.close()

    def _actual(self, path: str) -> Path | None:
        """Return the existing file of a path: the plain file, or a compressed one."""
        plain = self.directory / path
        compressed = (plain.with_name(plain.name + suffix) for suffix in COMPRESSED_SUFFIXES)
        return next((candidate for candidate in (plain, *compressed) if candidate.exists()), None)

    def _find_moved(self, path: str, position: FilePosition) -> _File | None:
        """Open the file of a position that was rotated or compressed, and so has another name."""
        plain = self.directory / path
        for entry in _entries(plain.parent):
            is_compressed = entry.name.removeprefix(plain.name) in COMPRESSED_SUFFIXES
            if (is_compressed or entry.inode() == position.inode) and entry.is_file():
                file = _File(path, Path(entry.path), msgspec.structs.replace(position))
                if file.is_same():
                    return file
                file.content.close()
        return None


def _inode(path: Path) -> int:
    """Return the inode number of a file. Raises FileNotFoundError."""
    return path.stat().st_ino


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _numbered(folder: Path, prefix: str = "") -> Iterator[str]:
    """Yield the paths of the node's files, whose names are numbers.

    The suffix of a compressed file is removed.

    Args:
        folder: The folder to which the paths are relative.
        prefix: The path of the subfolder to read, with a slash at its end.
    """
    for entry in _entries(folder / prefix):
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _numbered(folder, f"{path}/")
            continue
        plain, dot, suffix = path.rpartition(".")
        path = plain if dot and f".{suffix}" in COMPRESSED_SUFFIXES else path
        if path.rpartition("/")[2].isdecimal():
            yield path
