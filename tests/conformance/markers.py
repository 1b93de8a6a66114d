"""Reads from the source of the acceptance tests which rows they prove."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.plugin import MARKER

ACCEPTANCE = Path(__file__).parents[1] / "acceptance"


def proofs(folder: Path = ACCEPTANCE) -> dict[str, set[str]]:
    """Return for each row id the names of the tests that are marked with it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.rglob("test_*.py")):
        for row, test in _marked(ast.parse(path.read_text("utf-8")).body, path.stem, ()):
            found[row].add(test)
    return dict(found)


def _marked(body: list[ast.stmt], name: str, inherited: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _marked(node.body, f"{name}::{node.name}", (*inherited, *_rows(node)))
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield from ((row, f"{name}::{node.name}") for row in (*inherited, *_rows(node)))


def _rows(node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == f"pytest.mark.{MARKER}":
            yield from (ast.literal_eval(argument) for argument in decorator.args)
