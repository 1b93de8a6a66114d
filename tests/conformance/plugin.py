"""A pytest plugin for the rows of the interface that tests prove.

`@pytest.mark.proves("2.1/name", …)` names rows, and `--write-conformance` writes the page.

A row counts as proven if every test that names it passed in the run. The names are part of the test reports, so the
plugin works with pytest-xdist.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.conformance import page

MARKER = "proves"
PROPERTY = "proves"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-conformance", action="store_true", help="write docs/reference/conformance.md from this run"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(*rows): the rows of interface.md and living.md that the test proves")
    if config.getoption("--write-conformance") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Writer(page.PAGE), "conformance-writer")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if rows := [row for mark in item.iter_markers(MARKER) for row in mark.args]:
            item.user_properties.append((PROPERTY, rows))


def test_name(nodeid: str) -> str:
    """Return a test's name for the page: file, class and function, without parameters."""
    return nodeid.rpartition("/")[2].partition("[")[0].partition("@")[0].replace(".py::", "::")


class Writer:
    """Collects test outcomes in the process that receives the reports, and writes the page."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed: dict[str, set[str]] = defaultdict(set)
        self._not_passed: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        outcomes = self._passed if report.passed else self._not_passed
        for name, rows in report.user_properties:
            if name == PROPERTY and isinstance(rows, list):
                for row in rows:
                    outcomes[row].add(test_name(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        page.write({row: tests for row, tests in self._passed.items() if not self._not_passed[row]}, self._path)
