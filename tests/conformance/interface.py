"""docs/reference/interface.md as rows: one per table line, list entry and sentence that says something to prove."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INTERFACE = Path(__file__).parents[2] / "docs" / "reference" / "interface.md"

WORDS_OF_AN_ID = 6
NOTHING_TO_PROVE = ("not shown.", "see source table.", "see sink table.")
"""Ends of sentences that leave something open, or only point to another line."""

_HEADING = re.compile(r"#+ (\d+(?:\.\d+)?)\.? ")
_ENTRY = re.compile(r"(?:-|\d+\.) ")
_SENTENCE = re.compile(r"(?<!e\.g\.)(?<=[.:])\s+(?=[A-Z])")
_FIELDS = re.compile(r"([A-Z][a-z ]+): ((?:\w+ \([^)]*\),? ?)+)\.?")
_FIELD = re.compile(r"(\w+) \(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Row:
    """One line to prove. id: `<section>/<what>`."""

    id: str
    text: str


@dataclass(slots=True)
class _Place:
    section: str = ""
    group: str = ""
    header: tuple[str, ...] = ()


def rows(text: str | None = None) -> list[Row]:
    """All rows of the interface, in its order. Raises ValueError when two would have one id."""
    found = list(_rows(INTERFACE.read_text("utf-8") if text is None else text))
    ids = [row.id for row in found]
    if repeated := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise ValueError(f"two rows have one id: {', '.join(repeated)}")
    return found


def _rows(text: str) -> Iterator[Row]:
    place = _Place()
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            place = _Place(heading[1])
        elif not place.section or not line.strip():
            place.header = ()
        elif line.startswith("|"):
            yield from _table_row(place, tuple(cell.strip() for cell in line.strip("|").split("|")))
        elif _ENTRY.match(line):
            yield from _entry(place, _ENTRY.sub("", line, count=1))
        else:
            yield from _sentences(place, line)


def _table_row(place: _Place, cells: tuple[str, ...]) -> Iterator[Row]:
    if not place.header:
        place.header = cells
    elif not set("".join(cells)) <= set("-: "):
        what = _key(place, cells)
        yield Row(
            f"{place.section}/{what}", " · ".join(cell for cell in cells[_key_cells(place) :] if cell) or cells[0]
        )


def _key_cells(place: _Place) -> int:
    return 2 if place.header[0] in ("Method", "State") else 1


def _key(place: _Place, cells: tuple[str, ...]) -> str:
    """The first cell; where endpoints or transitions stand, the first two."""
    plain = [cell.replace("`", "").replace("(none)", "").strip() for cell in cells]
    if place.header[0] == "Method":
        return f"{plain[0]} {plain[1]}".strip()
    if place.header[0] == "State":
        return f"{plain[0]}: {plain[1]}".removeprefix(": ")
    return f"{place.group}.{plain[0]}" if place.group else plain[0]


def _entry(place: _Place, text: str) -> Iterator[Row]:
    if not text.endswith(NOTHING_TO_PROVE):
        yield Row(f"{place.section}/{_slug(text.partition(':')[0])}", text)


def _sentences(place: _Place, line: str) -> Iterator[Row]:
    """A line that ends with a colon names the table below it."""
    if line.endswith(":"):
        place.group = re.split(r"[ :]", line.lower())[0]
        return
    for sentence in _SENTENCE.split(line):
        if fields := _FIELDS.fullmatch(sentence):
            yield from _fields(place, fields)
        elif not sentence.lower().endswith(NOTHING_TO_PROVE):
            yield Row(f"{place.section}/{_slug(sentence)}", sentence)


def _fields(place: _Place, found: re.Match[str]) -> Iterator[Row]:
    """A sentence that lists fields: one row for each."""
    for name, text in _FIELD.findall(found[2]):
        yield Row(f"{place.section}/{_slug(found[1])}.{name}", text)


def _slug(text: str) -> str:
    words = re.findall(r"[a-z0-9_*]+(?:[-'][a-z0-9_]+)*", text.lower())
    return "-".join(words[:WORDS_OF_AN_ID])
