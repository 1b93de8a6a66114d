"""The class of bytes columns, which pass byte strings to C and back."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self, overload

import numpy as np

from headwater.native.ffi import (
    FFI,
    Column,
    native_library,
    pointer,
    pointer_to_bytes,
    uninitialized_bytes,
    zeroed_column,
)


class BytesColumn(Sequence[bytes | None]):
    """An immutable column of byte strings in one buffer. A string may be None.

    A newline follows each string; a string may contain newlines too. A bytes object of a single string is created only
    when it is requested: loops over many records work on the buffer.

    Attributes:
        buffer: The whole buffer.
        sizes: The size of each string in bytes, without its newline; -1 for None. An int32 column.
    """

    __slots__ = ("_starts", "buffer", "sizes")

    def __init__(self, buffer: bytes, sizes: Column) -> None:
        self.buffer = buffer
        self.sizes = sizes
        self._starts: Column | None = None

    @classmethod
    def of(cls, strings: Iterable[bytes | None]) -> Self:
        """Build a column from byte strings."""
        rows = [*strings]
        sizes = Column("i", [-1 if row is None else len(row) for row in rows])
        return cls(b"".join([(row or b"") + b"\n" for row in rows]), sizes)

    @property
    def starts(self) -> Column:
        """The offset of each string in the buffer, as an int32 column.

        It is computed when it is read first; several threads may read it at once.
        """
        starts = self._starts
        if starts is None:
            starts = zeroed_column("i", len(self))
            native_library().find_starts(pointer(self.sizes), len(self), pointer(starts))
            self._starts = starts  # assigned only when complete, for the other threads
        return starts

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[bytes | None]:
        lines: list[bytes | None] = [*self.buffer.split(b"\n")]
        if len(lines) == len(self) + 1 and self.min_size >= 0:  # no string contains a newline
            lines.pop()
            return iter(lines)
        buffer, rows = self.buffer, zip(self.starts, self.sizes, strict=True)
        return iter([None if size < 0 else buffer[start : start + size] for start, size in rows])

    @overload
    def __getitem__(self, row: int) -> bytes | None: ...
    @overload
    def __getitem__(self, row: slice) -> "BytesColumn": ...
    def __getitem__(self, row: int | slice) -> "bytes | BytesColumn | None":
        if isinstance(row, slice):
            return self.select_rows(Column("i", range(len(self))[row]))
        size, start = self.sizes[row], self.starts[row]
        return None if size < 0 else self.buffer[start : start + size]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BytesColumn):
            return self.sizes == other.sizes and self.buffer == other.buffer
        return isinstance(other, list) and [*self] == other

    __hash__ = None  # type: ignore[assignment]  # not hashable, because it equals lists, which are not hashable

    def __repr__(self) -> str:
        return f"BytesColumn.of({[*self]!r})"

    @property
    def min_size(self) -> int:
        """The smallest of the sizes; 0 for an empty column."""
        return int(np.frombuffer(self.sizes, np.int32).min()) if len(self) else 0

    @property
    def max_size(self) -> int:
        """The largest of the sizes, at least 0."""
        return int(np.frombuffer(self.sizes, np.int32).max(initial=0))

    def non_empty_rows(self) -> Column:
        """Return the rows whose string is neither empty nor None, as an int32 column."""
        return Column("i", np.flatnonzero(np.frombuffer(self.sizes, np.int32) > 0).astype(np.int32).tobytes())

    def select_rows(self, rows: Column) -> "BytesColumn":
        """Return a column with the strings of these rows. `rows` is an int32 column."""
        buffer = uninitialized_bytes(self.size_of_rows(rows))
        columns = pointer(self.starts), pointer(self.sizes), pointer(rows)
        native_library().copy_rows(self.buffer, *columns, len(rows), pointer_to_bytes(buffer))
        sizes = np.frombuffer(self.sizes, np.int32)[np.frombuffer(rows, np.int32)]
        return BytesColumn(buffer, Column("i", sizes.tobytes()))

    def size_of_rows(self, rows: Column) -> int:
        """Return how many bytes the strings of these rows take in the buffer, newlines included."""
        size: int = native_library().rows_size(pointer(self.sizes), pointer(rows), len(rows))
        return size


class SplitLines(NamedTuple):
    """The result of `split_lines`.

    Attributes:
        lines: The lines without their newlines.
        has_first_byte: Whether any line begins with the byte `first_byte`.
        has_byte: Whether any line contains the byte `byte`.
    """

    lines: BytesColumn
    has_first_byte: bool
    has_byte: bool


def split_lines(text: bytes, count: int, first_byte: bytes, byte: bytes) -> SplitLines:
    """Split a text at its newlines, and look for the single bytes `first_byte` and `byte`.

    Raises ValueError when the text does not have exactly `count` lines, each with a newline at its end.
    """
    sizes, has_first_byte, has_byte = zeroed_column("i", count), FFI.new("int64_t *"), FFI.new("int64_t *")
    split = native_library().split_lines
    line_count = split(text, len(text), pointer(sizes), count, first_byte[0], byte[0], has_first_byte, has_byte)
    if line_count != count:
        raise ValueError(f"the text does not have {count} lines")
    return SplitLines(BytesColumn(text, sizes), bool(has_first_byte[0]), bool(has_byte[0]))
