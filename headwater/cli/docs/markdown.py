"""Pages and tables."""

from collections.abc import Iterable, Iterator

GENERATED = "_Written by `make docs` from the code; change it there._"


def document(title: str, *lines: str) -> str:
    """A page, with the note that it is generated."""
    return "\n".join((f"# {title}", "", GENERATED, "", *lines)) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """The lines of a table."""
    yield _row(head)
    yield _row(("---",) * len(head))
    for row in rows:
        yield _row(tuple(cell.replace("|", "\\|") for cell in row))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |".replace("\n", " ")
