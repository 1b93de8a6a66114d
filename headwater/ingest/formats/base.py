"""Protocol of a reader of record files."""

from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

from headwater.model.stream import Entity

Report = Callable[[int, str], None]
"""Called for a record that can't be read: its number, and why. Raises, or has it left out."""


class Reader(Protocol):
    """The records of one file, read once. Raises OSError, EOFError or ValueError when the file is damaged."""

    @property
    def place(self) -> str:
        """What the numbers of records count, from 1: `line` or `record`."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Number and JSON of each record."""

    def share(self) -> float | None:
        """How much is read, 0 to 1; None: as much as of the file's bytes."""


OpenReader = Callable[[BinaryIO, Entity | None, Report], Reader]
"""Reads an unpacked file as records of an entity, whose fields tell what columns are. Without one, text stays text."""
