"""Prints results: tables on a terminal, plain columns in a pipe, JSON for programs."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

COLORS: Final = {"+": "green", "-": "red", "~": "yellow", "": ""}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        is_right: Whether it is aligned to the right.
    """

    title: str
    is_right: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with a color."""

    text: str
    color: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """Prints results on standard output."""

    as_json: bool

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the output."""
        return sys.stdout.isatty() and not self.as_json

    def json(self, value: Any) -> None:
        """Print a value as JSON."""
        import msgspec

        text = msgspec.json.encode(msgspec.to_builtins(value, enc_hook=_to_document))
        print((msgspec.json.format(text) if sys.stdout.isatty() else text).decode())

    def json_line(self, value: Any) -> None:
        """Print a value as one line of JSON, at once."""
        import msgspec

        sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
        sys.stdout.flush()

    def line(self, text: str = "", color: str = "") -> None:
        """Print a line."""
        if color and self.is_terminal:
            from rich.console import Console
            from rich.text import Text

            Console().print(Text(text, style=color), soft_wrap=True)
        else:
            print(text)

    def note(self, text: str) -> None:
        """Print a line for people on standard error."""
        print(text, file=sys.stderr)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]]) -> None:
        """Print a table: plain columns in a pipe."""
        cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
        if self.is_terminal:
            self._rich_table(columns, cells)
            return
        lines = [[column.title for column in columns], *([_plain(cell.text) for cell in row] for row in cells)]
        widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
        for line in lines:
            padded = [
                text.rjust(width) if column.is_right else text.ljust(width)
                for text, width, column in zip(line, widths, columns, strict=True)
            ]
            print("  ".join(padded).rstrip())

    def _rich_table(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in columns:
            table.add_column(
                column.title, justify="right" if column.is_right else "left", overflow="ellipsis", no_wrap=True
            )
        for row in rows:
            table.add_row(*(Text(cell.text, style=cell.color) for cell in row))
        Console().print(table)


def _plain(text: str) -> str:
    """Return a text without line breaks, so that a row is a line."""
    return " ".join(text.split()) or "-"


def _to_document(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise TypeError(f"{type(value).__name__} can't be printed as JSON")
