"""The protocol of readers of record files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from headwater.model.stream import Entity

BadRecordHandler = Callable[[int, str], None]
"""Is called with the number and the error of a record that can't be read. Raises, or returns to skip the record."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The differences of a CSV or TSV file from RFC 4180.

    Attributes:
        delimiter: The character between two fields; empty for the default of the format.
        nulls: Texts that mean null, in addition to the empty field.
    """

    delimiter: str = ""
    nulls: frozenset[str] = frozenset()


DEFAULT_DIALECT = Dialect()


class Reader(Protocol):
    """Reads the records of one file once.

    Raises csv.Error, or one of compression.DAMAGE_ERRORS, when the file is damaged.
    """

    @property
    def number_unit(self) -> str:
        """Whether the numbers of records count lines (`line`) or records (`record`), from 1."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the JSON of each record."""

    def fraction_read(self) -> float | None:
        """Return the fraction of the file that was read, 0 to 1.

        Returns None for a format that is read from start to end. The position in the file then shows the progress.
        """


OpenReader = Callable[[BinaryIO, Entity | None, BadRecordHandler, Dialect], Reader]
"""Opens a decompressed file for reading.

The entity's fields determine the types of columns; without an entity, all values of CSV and
TSV files are strings, and the values of Parquet files keep the types of their columns."""


def require_no_padding(names: list[str]) -> None:
    """Raise ValueError when the name of a column begins or ends with white space."""
    if padded := next((name for name in names if name != name.strip()), None):
        raise ValueError(f"the name of the column {padded!r} begins or ends with white space: remove it from the file")


def require_known_column(names: list[str], entity: Entity | None) -> None:
    """Raise ValueError when no column is a member of the stream.

    The file or its delimiter is wrong then.
    """
    if entity is None or not names or any(name in entity.fields for name in names):
        return
    columns = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
    raise ValueError(
        f"no column of the file is a member of the stream's records ({columns}). Members are {', '.join(entity.fields)}"
    )
