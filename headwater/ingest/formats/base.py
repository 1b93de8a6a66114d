"""Protocol of a reader of record files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from headwater.model.stream import Entity

Report = Callable[[int, str], None]
"""Called for a record that can't be read: its number, and why. Raises, or has it left out."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text file with columns is written, where it differs from RFC 4180.

    Attributes:
        delimiter: The character between two fields; empty for the format's own one.
        nulls: Texts that mean null, beside the empty field.
    """

    delimiter: str = ""
    nulls: frozenset[str] = frozenset()


PLAIN = Dialect()


class Reader(Protocol):
    """The records of one file, read once. Raises OSError, EOFError or ValueError when the file is damaged."""

    @property
    def place(self) -> str:
        """What the numbers of records count, from 1: `line` or `record`."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Number and JSON of each record."""

    def share(self) -> float | None:
        """How much is read, 0 to 1; None: as much as of the file's bytes."""


OpenReader = Callable[[BinaryIO, Entity | None, Report, Dialect], Reader]
"""Reads an unpacked file as records of an entity, whose fields tell what columns are. Without one, text stays text."""


def require_known_column(names: list[str], entity: Entity | None) -> None:
    """Raise ValueError when no column is a member of the stream: the file is another one, or read wrongly."""
    if entity is None or not names or any(name in entity.fields for name in names):
        return
    columns = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
    raise ValueError(
        f"no column of the file is a member of the stream's records ({columns}). Members are {', '.join(entity.fields)}"
    )
