"""A column of texts in one buffer."""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self, overload

import numpy as np

from headwater.native.library import Buffer, Column, address, address_of, blank_bytes, blank_column, kernel

_MAX_BYTES = 2**31 - 1
"""Places in a column are numbers of 32 bits."""


class Texts(Sequence[bytes | None]):
    """Texts one after the other, each followed by a newline, which it may contain as well. Not changed.

    text: of all. sizes: column "i", in bytes without the newline behind, -1 for None. Bytes objects of single texts are
    made where they are asked for: hot loops work on the buffer.
    """

    __slots__ = ("_starts", "sizes", "text")

    def __init__(self, text: bytes, sizes: Column) -> None:
        self.text = text
        self.sizes = sizes
        self._starts: Column | None = None

    @classmethod
    def of(cls, texts: Iterable[bytes | None]) -> Self:
        """A column of these."""
        rows = [*texts]
        sizes = Column("i", [-1 if text is None else len(text) for text in rows])
        return cls(b"".join([(text or b"") + b"\n" for text in rows]), sizes)

    @classmethod
    def gathered(cls, parts: Sequence[tuple[Buffer, Column, Column]]) -> Self:
        """From texts anywhere in buffers: where each begins, and its size. Raises ValueError above 2 GiB."""
        sizes = Column("i")
        for _, _, of_part in parts:
            sizes += of_part
        size, written = _size(sizes, None, len(sizes)), 0
        if size > _MAX_BYTES:
            raise ValueError(f"{size} bytes are too many for one column of texts")
        out = blank_bytes(size)
        start = address_of(out)
        for buffer, starts, of_part in parts:
            at = ctypes.c_void_p((start.value or 0) + written)
            written += _gather(buffer, starts, of_part, None, len(of_part), at)
        return cls(out, sizes)

    @property
    def starts(self) -> Column:
        """Column "i": where each text begins. From any thread."""
        starts = self._starts
        if starts is None:
            starts = blank_column("i", len(self))
            kernel().find_starts(address(self.sizes), ctypes.c_int64(len(self)), address(starts))
            self._starts = starts  # not before it is filled: others run meanwhile
        return starts

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[bytes | None]:
        lines: list[bytes | None] = [*self.text.split(b"\n")]
        if len(lines) == len(self) + 1 and self.smallest >= 0:  # no text contains a newline
            lines.pop()
            return iter(lines)
        text, rows = self.text, zip(self.starts, self.sizes, strict=True)
        return iter([None if size < 0 else text[start : start + size] for start, size in rows])

    @overload
    def __getitem__(self, row: int) -> bytes | None: ...
    @overload
    def __getitem__(self, row: slice) -> "Texts": ...
    def __getitem__(self, row: int | slice) -> "bytes | Texts | None":
        if isinstance(row, slice):
            return self.take(Column("i", range(len(self))[row]))
        size, start = self.sizes[row], self.starts[row]
        return None if size < 0 else self.text[start : start + size]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Texts):
            return self.sizes == other.sizes and self.text == other.text
        return isinstance(other, list) and [*self] == other

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none

    def __repr__(self) -> str:
        return f"Texts.of({[*self]!r})"

    @property
    def smallest(self) -> int:
        """The least of the sizes, 0 when there is none."""
        return int(np.frombuffer(self.sizes, np.int32).min()) if len(self) else 0

    @property
    def largest(self) -> int:
        """The greatest of the sizes, 0 when there is none."""
        return int(np.frombuffer(self.sizes, np.int32).max(initial=0))

    def filled(self) -> Column:
        """The rows of those that are not empty: a column "i"."""
        return Column("i", np.flatnonzero(np.frombuffer(self.sizes, np.int32) > 0).astype(np.int32).tobytes())

    def take(self, rows: Column) -> "Texts":
        """The texts of some rows. rows: column "i"."""
        text = blank_bytes(self.size_of(rows))
        _gather(self.text, self.starts, self.sizes, rows, len(rows), address_of(text))
        return Texts(text, Column("i", np.frombuffer(self.sizes, np.int32)[np.frombuffer(rows, np.int32)].tobytes()))

    def size_of(self, rows: Column) -> int:
        """What the texts of some rows take in the buffer, in bytes."""
        return _size(self.sizes, rows, len(rows))


class Split(NamedTuple):
    """marked: some line begins with the mark; with_letter: the letter is in some line."""

    lines: Texts
    marked: bool
    with_letter: bool


def split_lines(text: bytes, count: int, mark: bytes, letter: bytes) -> Split:
    """The lines of a text, each ended by a newline. Raises ValueError when these are not so many."""
    sizes, size = blank_column("i", count), ctypes.c_int64(len(text))
    marked, with_letter = ctypes.c_int64(), ctypes.c_int64()
    letters = ctypes.c_uint8(*mark), ctypes.c_uint8(*letter)
    told = ctypes.byref(marked), ctypes.byref(with_letter)
    if kernel().split_lines(text, size, address(sizes), ctypes.c_int64(count), *letters, *told) != count:
        raise ValueError(f"not a text of {count} lines")
    return Split(Texts(text, sizes), bool(marked.value), bool(with_letter.value))


def _size(sizes: Column, rows: Column | None, count: int) -> int:
    size: int = kernel().texts_size(address(sizes), None if rows is None else address(rows), ctypes.c_int64(count))
    return size


def _gather(
    buffer: Buffer,
    starts: Column,
    sizes: Column,
    rows: Column | None,
    count: int,
    out: ctypes.c_void_p,
) -> int:
    """Copy texts to an address; what they take there."""
    size: int = kernel().gather_texts(
        address_of(buffer),
        address(starts),
        address(sizes),
        None if rows is None else address(rows),
        ctypes.c_int64(count),
        out,
    )
    return size
