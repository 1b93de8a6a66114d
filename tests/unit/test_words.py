"""Docs and docstrings use the words of the field, as far as a program can tell."""

import ast
import functools
import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("headwater", "clients", "embedded", "tests", "benches", "deploy")
MAX_SUMMARY_CHARS = 90
MAX_LINE_CHARS = 100
MAX_CELL_CHARS = 200
QUOTED_PAGES = ("interface.md", "conformance.md")
"""Pages with the text of the interface, which is given."""

BANNED_PHRASES = {
    r"told": "say who reports or returns what",
    r"stands?(?! for\b)": "is, remains",
    r"(?:comes?|came) again": "is sent again, is redelivered, is repeated",
    r"(?:goes|went|going) on|can't go on": "continues",
    r"(?:is|are|was|were|be) away": "is unavailable",
    r"of those who": "of the users, clients, consumers",
    r"lives? on": "survives, continues",
    r"takes? turns": "alternates",
    r"gives? up on|given up": "aborted, abandoned",
    r"mend(?:s|ed|ing)?": "fix, correct, repair",
    r"still going on": "in progress",
    r"something is away": "a dependency is unavailable",
    r"firehoses?": "streams",
    r"(?:those|these) of": "repeat the noun",
    r"(?:is|are|as|than) that of": "repeat the noun",
}
"""Phrases that a reader from the field has to read twice, with what to write instead."""

ANY_BANNED = re.compile("|".join(rf"\b(?:{phrase})\b" for phrase in BANNED_PHRASES), re.IGNORECASE)
"""Matches every text with a banned phrase; one search is faster than one for each phrase."""

BANNED_NAMES = frozenset(
    {
        "Ledger",
        "Flight",
        "Standing",
        "Outbox",
        "Parcel",
        "Sealed",
        "Shelf",
        "Scout",
        "Finder",
        "Lane",
        "Trouble",
        "Wanted",
        "Turns",
        "Turn",
        "Texts",
        "Numbers",
        "Portion",
        "Told",
        "Given",
        "Caller",
        "Waits",
        "InTurn",
        "Once",
        "Calls",
        "Left",
        "Leaving",
        "Chunk",
        "Closing",
        "Wake",
        "Home",
        "Addresses",
        "Story",
    }
)
"""Names that the field does not have; the classes have other names now."""

STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""The nodes that may contain classes and functions."""


def pages() -> list[Path]:
    """Return the pages of the documentation that are not quoted."""
    return [path for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]) if path.name not in QUOTED_PAGES]


def modules(*folders: str) -> list[Path]:
    """Return the Python files of these folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside of code blocks, each with its number."""
    in_code = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


class Definitions(NamedTuple):
    """The docstrings and the names of the classes of a module, each with its line number."""

    docstrings: list[tuple[int, str]]
    classes: list[tuple[int, str]]


@functools.cache
def definitions(path: Path) -> Definitions:
    """Read a module."""
    found = Definitions([], [])
    nodes: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    for node in nodes:
        nodes += [each for each in ast.iter_child_nodes(node) if isinstance(each, STATEMENTS)]
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            found.docstrings.append((node.body[0].lineno, text))
        if isinstance(node, ast.ClassDef):
            found.classes.append((node.lineno, node.name))
    return found


def banned(text: str) -> Iterator[str]:
    """Yield a sentence for each banned phrase in a text, without its inline code."""
    words = re.sub(r"`[^`]*`", "", text)
    if not ANY_BANNED.search(words):
        return
    for phrase, instead in BANNED_PHRASES.items():
        if found := re.search(rf"\b(?:{phrase})\b", words, re.IGNORECASE):
            yield f"{found[0]!r}: write {instead!r}"


def place(path: Path, line: int) -> str:
    """Return the position of a finding."""
    return f"{path.relative_to(ROOT)}:{line}"


def test_pages_have_short_lines_and_cells() -> None:
    found = []
    for page in pages():
        for number, line in prose(page):
            cells = re.split(r"(?<!\\)\|", line) if line.startswith("|") else []
            if any(len(cell.strip()) > MAX_CELL_CHARS for cell in cells) or (not cells and len(line) > MAX_LINE_CHARS):
                found.append(place(page, number))
    assert found == []


def test_pages_have_no_banned_phrases() -> None:
    lines = ((page, *line) for page in pages() for line in prose(page))
    assert [f"{place(page, number)} {why}" for page, number, line in lines for why in banned(line)] == []


def test_docstrings_have_no_banned_phrases() -> None:
    texts = ((path, *text) for path in modules(*PACKAGES) for text in definitions(path).docstrings)
    assert [f"{place(path, line)} {why}" for path, line, text in texts for why in banned(text)] == []


def test_docstrings_begin_with_a_short_sentence() -> None:
    docstrings = ((path, *text) for path in modules(*PACKAGES) for text in definitions(path).docstrings)
    texts = ((path, line, text.splitlines()[0]) for path, line, text in docstrings)
    assert [
        f"{place(path, line)} {summary}"
        for path, line, summary in texts
        if len(summary) >= MAX_SUMMARY_CHARS or not summary.endswith(".") or summary.startswith("What ")
    ] == []


def test_classes_have_names_of_the_field() -> None:
    classes = ((path, *named) for path in modules(*PACKAGES) for named in definitions(path).classes)
    assert [place(path, line) for path, line, name in classes if name.strip("_") in BANNED_NAMES] == []


def test_no_module_has_the_name_of_one_of_the_standard_library() -> None:
    paths = modules(*PACKAGES)
    names = chain(((path, path.stem) for path in paths), ((path, path.parent.name) for path in paths))
    assert {place(path, 1) for path, name in names if name in sys.stdlib_module_names} == set()


@pytest.mark.parametrize(
    "text", ["This was told twice.", "It goes on.", "The store is away.", "The types are those of the query."]
)
def test_banned_phrases_are_found(text: str) -> None:
    assert len(list(banned(text))) == 1


@pytest.mark.parametrize("text", ["`told` is a label.", "`$H` stands for the address.", "It was retold."])
def test_other_phrases_are_not_found(text: str) -> None:
    assert list(banned(text)) == []
