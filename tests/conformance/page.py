"""Writes docs/reference/conformance.md.

The page has each row of the interface and of its additions, and the tests that prove the row.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.conformance.interface import INTERFACE, LIVING, Row, rows_of
from tests.conformance.open_rows import reason

PAGE = INTERFACE.with_name("conformance.md")
INTRODUCTION = """\
# Conformance

_Written by `make conformance`. A row counts as proven when all its acceptance tests passed._

The page lists each testable line of [interface.md](interface.md), and of its additions in
[living.md](living.md), with the acceptance tests that prove it against a running Headwater, over
HTTP and Kafka only. **Open** rows say what is not proven, and why.
"""
PARTS = {"The interface": INTERFACE, "Living with a pipeline": LIVING}
"""The pages with the rows, by heading."""


def page(proofs: Mapping[str, Iterable[str]]) -> str:
    """Return the page. `proofs` has the names of the tests that prove a row, by row id."""
    lines = [INTRODUCTION.rstrip()]
    for heading, source in PARTS.items():
        rows = rows_of([source])
        proven = sum(1 for row in rows if proofs.get(row.id) and reason(row.id) is None)
        lines += ["", f"## {heading}", "", f"{proven} of {len(rows)} rows are proven.", ""]
        lines += ["| Row | What it says | Proof |", "|---|---|---|"]
        lines += [_line(row, sorted(proofs.get(row.id, ()))) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: Row, tests: list[str]) -> str:
    proof = "<br>".join(f"`{test}`" for test in tests)
    if (why := reason(row.id)) or not tests:
        proof = f"**open**: {why or 'no test proves it'}" + (f"<br>{proof}" if proof else "")
    return f"| {row.id} | {row.text} | {proof} |"


def write(proofs: Mapping[str, Iterable[str]], path: Path = PAGE) -> None:
    """Write the page."""
    path.write_text(page(proofs), "utf-8")
