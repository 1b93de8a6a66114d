"""Splits docs/reference/interface.md and docs/reference/living.md into rows.

A row is a table row, list entry or sentence that can be proven.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
INTERFACE, LIVING = REFERENCE / "interface.md", REFERENCE / "living.md"
PAGES = (INTERFACE, LIVING)

WORDS_OF_AN_ID = 6
NOTHING_TO_PROVE = ("not shown.", "see source table.", "see sink table.")
"""Endings of sentences that specify nothing, or only refer to another line."""

_HEADING = re.compile(r"#+ (\d+(?:\.\d+)?)\.? ")
_CONTINUATION = re.compile(r"\n {2,}(?=\S)")
"""The line break in a list entry of several lines."""
_ENTRY = re.compile(r"(?:-|\d+\.) ")
_SENTENCE = re.compile(r"(?<!e\.g\.)(?<=[.:])\s+(?=[A-Z])")
_FIELDS = re.compile(r"([A-Z][a-z ]+): ((?:\w+ \([^)]*\),? ?)+)\.?")
_FIELD = re.compile(r"(\w+) \(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Row:
    """One statement to prove. Its id has the form `<section>/<name>`."""

    id: str
    text: str


@dataclass(slots=True)
class _Context:
    section: str = ""
    group: str = ""
    header: tuple[str, ...] = ()


def rows_of(pages: Iterable[Path] = PAGES) -> list[Row]:
    """Return all rows of these pages, in order. Raise ValueError if two rows have the same id."""
    return rows("\n# \n".join(page.read_text("utf-8") for page in pages))


def rows(text: str) -> list[Row]:
    """Return all rows of a text, in order. Raise ValueError if two rows have the same id."""
    parsed = list(_rows(text))
    ids = [row.id for row in parsed]
    if repeated := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise ValueError(f"several rows have the same id: {', '.join(repeated)}")
    return parsed


def _rows(text: str) -> Iterator[Row]:
    context = _Context()
    for line in _CONTINUATION.sub(" ", text).splitlines():
        if line.startswith("#"):
            heading = _HEADING.match(line)
            context = _Context(heading[1] if heading else "")
        elif not context.section or not line.strip():
            context.header = ()
        elif line.startswith("|"):
            yield from _table_row(context, tuple(cell.strip() for cell in line.strip("|").split("|")))
        elif _ENTRY.match(line):
            yield from _entry(context, _ENTRY.sub("", line, count=1))
        else:
            yield from _sentences(context, line)


def _table_row(context: _Context, cells: tuple[str, ...]) -> Iterator[Row]:
    if not context.header:
        context.header = cells
    elif not set("".join(cells)) <= set("-: "):
        what = _key(context, cells)
        yield Row(
            f"{context.section}/{what}", " · ".join(cell for cell in cells[_key_cells(context) :] if cell) or cells[0]
        )


def _key_cells(context: _Context) -> int:
    return 2 if context.header[0] in ("Method", "State") else 1


def _key(context: _Context, cells: tuple[str, ...]) -> str:
    """Return the first cell, or the first two cells in tables of endpoints and of transitions."""
    plain = [cell.replace("`", "").replace("(none)", "").strip() for cell in cells]
    if context.header[0] == "Method":
        return f"{plain[0]} {plain[1]}".strip()
    if context.header[0] == "State":
        return f"{plain[0]}: {plain[1]}".removeprefix(": ")
    return f"{context.group}.{plain[0]}" if context.group else plain[0]


def _entry(context: _Context, text: str) -> Iterator[Row]:
    if not text.endswith(NOTHING_TO_PROVE):
        yield Row(f"{context.section}/{_slug(text.partition(':')[0])}", text)


def _sentences(context: _Context, line: str) -> Iterator[Row]:
    """Yield a row per sentence. A line that ends with a colon names the table below it."""
    if line.endswith(":"):
        context.group = re.split(r"[ :]", line.lower())[0]
        return
    for sentence in _SENTENCE.split(line):
        if fields := _FIELDS.fullmatch(sentence):
            yield from _fields(context, fields)
        elif not sentence.lower().endswith(NOTHING_TO_PROVE):
            yield Row(f"{context.section}/{_slug(sentence)}", sentence)


def _fields(context: _Context, found: re.Match[str]) -> Iterator[Row]:
    """Yield a row per field of a sentence that lists fields."""
    for name, text in _FIELD.findall(found[2]):
        yield Row(f"{context.section}/{_slug(found[1])}.{name}", text)


def _slug(text: str) -> str:
    words = re.findall(r"[a-z0-9_*]+(?:[-'][a-z0-9_]+)*", text.lower())
    return "-".join(words[:WORDS_OF_AN_ID])
