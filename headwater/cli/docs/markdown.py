"""Markdown pages and tables."""

from collections.abc import Iterable, Iterator

GENERATED = "_Written by `make docs` from the code; change it there._"


def document(title: str, *lines: str) -> str:
    """Return a page, with a note that it is generated."""
    return "\n".join((f"# {title}", "", GENERATED, "", *lines)) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield _row(head)
    yield _row(("---",) * len(head))
    for row in rows:
        yield _row(tuple(cell.replace("|", "\\|") for cell in row))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |".replace("\n", " ")
