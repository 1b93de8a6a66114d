"""A column of texts in one buffer."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self, overload

import numpy as np

from headwater.native.library import FFI, Column, blank_bytes, blank_column, kernel, pointer, pointer_to_bytes


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

    @property
    def starts(self) -> Column:
        """Column "i": where each text begins. From any thread."""
        starts = self._starts
        if starts is None:
            starts = blank_column("i", len(self))
            kernel().find_starts(pointer(self.sizes), len(self), pointer(starts))
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
        text, places = blank_bytes(self.size_of(rows)), (pointer(self.starts), pointer(self.sizes), pointer(rows))
        kernel().gather_texts(self.text, *places, len(rows), pointer_to_bytes(text))
        return Texts(text, Column("i", np.frombuffer(self.sizes, np.int32)[np.frombuffer(rows, np.int32)].tobytes()))

    def size_of(self, rows: Column) -> int:
        """What the texts of some rows take in the buffer, in bytes."""
        size: int = kernel().texts_size(pointer(self.sizes), pointer(rows), len(rows))
        return size


class Split(NamedTuple):
    """marked: some line begins with the mark; with_letter: the letter is in some line."""

    lines: Texts
    marked: bool
    with_letter: bool


def split_lines(text: bytes, count: int, mark: bytes, letter: bytes) -> Split:
    """The lines of a text, each ended by a newline. Raises ValueError when these are not so many."""
    sizes, marked, with_letter = blank_column("i", count), FFI.new("int64_t *"), FFI.new("int64_t *")
    letters = mark[0], letter[0]
    if kernel().split_lines(text, len(text), pointer(sizes), count, *letters, marked, with_letter) != count:
        raise ValueError(f"not a text of {count} lines")
    return Split(Texts(text, sizes), bool(marked[0]), bool(with_letter[0]))
