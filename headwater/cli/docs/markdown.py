"""Markdown pages, paragraphs and tables."""

import textwrap
from collections.abc import Iterable, Iterator

GENERATED = "_Written by `make docs` from the code; change it there._"
WIDTH = 100
"""Characters per line of text; tables and code are not wrapped."""


def document(title: str, *lines: str) -> str:
    """Return a page with a title and a note that the page is generated."""
    return "\n".join((f"# {title}", "", GENERATED, "", *lines)) + "\n"


def paragraphs(text: str) -> Iterator[str]:
    """Yield the lines of a text, wrapped to WIDTH.

    Empty lines separate its paragraphs.
    """
    for index, paragraph in enumerate(text.split("\n\n")):
        if index:
            yield ""
        yield from textwrap.wrap(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield _row(head)
    yield _row(("---",) * len(head))
    for row in rows:
        yield _row(tuple(cell.replace("|", "\\|") for cell in row))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |".replace("\n", " ")
