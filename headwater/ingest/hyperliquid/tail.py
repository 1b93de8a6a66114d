"""The files of one folder of a node, followed like `tail -F`.

A file is read as far as it has whole lines. What was read is kept as (inode, offset) with a checksum of the file's
first bytes: a file that was replaced or cut is not taken for the one that was read, even under a used inode number.
"""

import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

log = structlog.get_logger(__name__)

READ_BYTES: Final = 512 * 1024
MAX_LINE_BYTES: Final = 256 * 1024 * 1024
"""A longer line is taken in pieces, none of which can be read; the next line is."""
HEAD_BYTES: Final = 128
HALF_LINE_S: Final = 5.0
"""How long a half line keeps later files waiting."""
RETIRE_S: Final = 60.0
"""A file that did not change for so long, while there is a later one, is done."""


class Place(msgspec.Struct, array_like=True):
    """How far a file was read. head: CRC-32 of its first bytes, at most HEAD_BYTES of those read."""

    inode: int
    offset: int = 0
    lines: int = 0
    head: int = 0


class TailState(msgspec.Struct):
    """floor: the last file that is done; it and all before it are not read again. places: of the files after it."""

    floor: str = ""
    places: dict[str, Place] = {}


class Chunk(NamedTuple):
    """Whole lines of a file, without their ends. ends: the offset behind each. first_line: its number, from 0."""

    path: str
    first_line: int
    lines: list[bytes]
    ends: list[int]


def file_order(path: str) -> list[tuple[int, str]]:
    """Sorts paths by the numbers in them: hour 9 comes before hour 10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", path)]


@dataclass(slots=True)
class _File:
    path: str
    fd: int
    place: Place

    def unread(self) -> int:
        return os.fstat(self.fd).st_size - self.place.offset

    def is_same(self) -> bool:
        """Whether it still begins with what was read."""
        size = min(HEAD_BYTES, self.place.offset)
        return self.unread() >= 0 and zlib.crc32(os.pread(self.fd, size, 0)) == self.place.head

    def peek(self) -> Chunk | None:
        """Whole lines behind what was read, about READ_BYTES of them."""
        size = READ_BYTES
        while True:
            data = os.pread(self.fd, size, self.place.offset)
            end = data.rfind(b"\n") + 1
            if end or len(data) < size or size >= MAX_LINE_BYTES:
                break
            size *= 2
        if not end and len(data) >= MAX_LINE_BYTES:
            end = len(data)
        return _chunk(self, data[:end]) if end else None

    def advance(self, offset: int, lines: int) -> None:
        """What lies before this offset was read."""
        place = self.place
        changes = place.offset < HEAD_BYTES
        place.offset, place.lines = offset, place.lines + lines
        if changes:
            place.head = zlib.crc32(os.pread(self.fd, min(HEAD_BYTES, offset), 0))

    def skip_to_end(self) -> None:
        """Take all whole lines for read. They are counted: a block's height is the number of its line."""
        self.place = Place(self.place.inode)
        while chunk := self.peek():
            self.advance(chunk.ends[-1], len(chunk.lines))

    def idle_s(self, now: float) -> float:
        return now - os.fstat(self.fd).st_mtime


def _chunk(file: _File, data: bytes) -> Chunk:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    ends, at = [], file.place.offset
    last = at + len(data)
    for line in lines:
        at += len(line) + 1
        ends.append(min(at, last))
    return Chunk(file.path, file.place.lines, lines, ends)


@dataclass(slots=True)
class FolderTail:
    """Reads one folder. lost: a sentence for each file that was replaced, cut or removed, and for half lines given up.

    Used by one thread. now: seconds since 1970.
    """

    folder: Path
    state: TailState
    now: Callable[[], float] = time.time
    lost: list[str] = field(default_factory=list)
    _paths: list[str] = field(default_factory=list)
    _files: dict[str, _File] = field(default_factory=dict)

    def scan(self) -> None:
        """Look for new files."""
        floor = file_order(self.state.floor)
        found = {path for path in _numbered(self.folder) if file_order(path) > floor}
        self._paths = sorted(found | set(self.state.places), key=file_order)

    def skip_to_end(self) -> None:
        """Take all that is there for read."""
        self.scan()
        *old, last = self._paths or [""]
        self.state.floor = old[-1] if old else ""
        if last and (file := self._current(last)):
            file.skip_to_end()
            self._paths, self.state.places = [last], {last: file.place}

    def changed_at(self) -> float:
        """When the newest file changed; 0 without one."""
        try:
            return (self.folder / self._paths[-1]).stat().st_mtime if self._paths else 0.0
        except FileNotFoundError:
            return 0.0

    def peek(self) -> Chunk | None:
        """The next whole lines, or None. Nothing is read by this: `advance` says what was."""
        for path in list(self._paths):
            file = self._current(path)
            if file is None:
                continue
            if chunk := file.peek():
                return chunk
            if self._is_half(file):
                return None
            self._retire(file)
        return None

    def advance(self, chunk: Chunk, count: int) -> None:
        """The first `count` lines of a chunk were read."""
        if count:
            file = self._files[chunk.path]
            file.advance(chunk.ends[count - 1], count)
            self.state.places[chunk.path] = file.place

    def close(self) -> None:
        """Close all files."""
        for path in list(self._files):
            os.close(self._files.pop(path).fd)

    def _is_half(self, file: _File) -> bool:
        """Whether a line is being written: later files wait for its end."""
        return file.unread() > 0 and file.idle_s(self.now()) < HALF_LINE_S

    def _retire(self, file: _File) -> None:
        """A file is done when it rests and a later one has something in it."""
        if file.path != self._paths[0] or file.idle_s(self.now()) < RETIRE_S or not self._has_later(file.path):
            return
        self._end(file)
        self.state.floor = file.path
        self._paths.remove(file.path)

    def _has_later(self, path: str) -> bool:
        try:
            return path != self._paths[-1] and (self.folder / self._paths[-1]).stat().st_size > 0
        except FileNotFoundError:
            return False

    def _current(self, path: str) -> _File | None:
        """The file at a path; the one that was there before, as long as it has something to read."""
        file = self._files.get(path) or self._open(path)
        if file is None:
            return None
        inode = self._inode(path)
        if inode == file.place.inode:
            if not file.is_same():
                self._restart(file)
            return file
        if file.peek() or self._is_half(file):
            return file
        self._end(file)
        return self._open(path) if inode else None

    def _inode(self, path: str) -> int:
        try:
            return (self.folder / path).stat().st_ino
        except FileNotFoundError:
            return 0

    def _restart(self, file: _File) -> None:
        """The file was cut, or written anew under the same name."""
        head = os.pread(file.fd, min(HEAD_BYTES, file.place.offset), 0)
        if head and zlib.crc32(head) == file.place.head:
            file.skip_to_end()
            what = "was cut"
        else:
            file.place, what = Place(file.place.inode), "was written anew"
        self.state.places[file.path] = file.place
        self.lost.append(f"{file.path} {what}; lines that were not read by then are lost")

    def _end(self, file: _File) -> None:
        """Let go of a file."""
        if rest := file.unread():
            self.lost.append(f"{file.path} ends within a line; {rest} bytes are left out")
        os.close(self._files.pop(file.path).fd)
        self.state.places.pop(file.path, None)

    def _open(self, path: str) -> _File | None:
        place, name = self.state.places.get(path), self.folder / path
        if place is not None and place.inode != self._inode(path):
            found = self._find(name.parent, place)
            if found is None:
                self.lost.append(f"{path} was removed; lines that were not read by then are lost")
                del self.state.places[path]
                place = None
            name = found or name
        try:
            fd = os.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        file = self._files[path] = _File(path, fd, place or Place(os.fstat(fd).st_ino))
        return file

    @staticmethod
    def _find(folder: Path, place: Place) -> Path | None:
        """Where a file is that was read before: under another name, when it was rotated."""
        found = (Path(entry.path) for entry in _entries(folder) if entry.inode() == place.inode and entry.is_file())
        return next((path for path in found if _is_at(path, place)), None)


def _is_at(path: Path, place: Place) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return _File(path.name, fd, place).is_same()
    finally:
        os.close(fd)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _numbered(folder: Path, below: str = "") -> Iterator[str]:
    """Paths of the files that are named by a number, as the node's are."""
    for entry in _entries(folder / below):
        path = f"{below}{entry.name}"
        if entry.is_dir():
            yield from _numbered(folder, f"{path}/")
        elif entry.name.isdecimal():
            yield path
