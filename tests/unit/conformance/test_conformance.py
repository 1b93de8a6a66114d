"""The conformance table is complete and current."""

from pathlib import Path
from typing import Literal

import pytest

from tests.conformance import page
from tests.conformance.interface import rows, rows_of
from tests.conformance.markers import proofs
from tests.conformance.open_rows import OPEN, reason
from tests.conformance.plugin import PROPERTY, Writer

HINT = "run `make conformance` and commit what it writes"


class TestTable:
    def test_every_id_of_a_marker_is_a_row(self) -> None:
        assert not set(proofs()) - {row.id for row in rows_of()}

    def test_every_row_is_proven_or_open(self) -> None:
        proven = set(proofs())
        assert not [row.id for row in rows_of() if row.id not in proven and reason(row.id) is None]

    def test_every_open_row_is_a_row(self) -> None:
        ids = [row.id for row in rows_of()]
        assert not [key for key in OPEN if not any(id_.startswith(key.removesuffix("*")) for id_ in ids)]

    def test_the_page_is_current(self) -> None:
        assert page.PAGE.read_text("utf-8") == page.page(proofs()), HINT


class TestRows:
    def test_a_table_line(self) -> None:
        (row,) = rows("### 2.1 A\n| Field | Type |\n|---|---|\n| `name` | string |\n")
        assert (row.id, row.text) == ("2.1/name", "string")

    def test_a_table_below_a_name(self) -> None:
        (row,) = rows("## 2. A\nSource:\n\n| Field | Type |\n|---|---|\n| chain | string |\n")
        assert row.id == "2/source.chain"

    def test_an_endpoint(self) -> None:
        (row,) = rows("## 4. A\n| Method | Path | Request |\n|---|---|---|\n| GET | /x | none |\n")
        assert (row.id, row.text) == ("4/GET /x", "none")

    def test_a_transition(self) -> None:
        head = "| State | Trigger | Next |\n|---|---|---|\n"
        found = rows(f"## 3. A\n{head}| (none) | Create | made |\n| made | Delete | removed |\n")
        assert [row.id for row in found] == ["3/Create", "3/made: Delete"]

    def test_sentences_and_entries(self) -> None:
        found = rows("## 5. A\n1. First: a b.\n\nAll is well. The rest: not shown.\n")
        assert [row.id for row in found] == ["5/first", "5/all-is-well"]

    def test_a_sentence_that_lists_fields(self) -> None:
        found = rows("## 5. A\nEntry: name (string), status (string, e.g. Running).\n")
        assert [(row.id, row.text) for row in found] == [
            ("5/entry.name", "string"),
            ("5/entry.status", "string, e.g. Running"),
        ]

    def test_an_entry_of_several_lines(self) -> None:
        (row,) = rows("## 11. A\n- First: a\n  b.\n")
        assert (row.id, row.text) == ("11/first", "First: a b.")

    def test_a_heading_without_a_number_ends_the_rows(self) -> None:
        assert rows("## 11. A\n\n## More\nAll is well.\n") == []

    def test_ids_are_unique(self) -> None:
        with pytest.raises(ValueError, match="5/all-is-well"):
            rows("## 5. A\nAll is well. All is well.\n")


class TestWriter:
    def report(self, test: str, outcome: Literal["passed", "failed", "skipped"], *rows: str) -> pytest.TestReport:
        properties: list[tuple[str, object]] = [(PROPERTY, list(rows))]
        return pytest.TestReport(test, (test, 0, test), {}, outcome, None, "call", user_properties=properties)

    @pytest.mark.parametrize("outcome", ["failed", "skipped"])
    def test_a_row_is_proven_when_all_its_tests_passed(
        self, tmp_path: Path, outcome: Literal["failed", "skipped"]
    ) -> None:
        writer = Writer(tmp_path / "page.md")
        for test, ended, row in (
            ("tests/acceptance/test_a.py::test_one[x]", "passed", "2.1/id"),
            ("tests/acceptance/test_a.py::TestB::test_two", "passed", "2.1/name"),
            ("tests/acceptance/test_a.py::test_three", outcome, "2.1/name"),
        ):
            writer.pytest_runtest_logreport(self.report(test, ended, row))  # type: ignore[arg-type]  # a literal
        writer.pytest_sessionfinish()
        lines = (tmp_path / "page.md").read_text("utf-8").splitlines()
        (proven,) = [line for line in lines if line.startswith("| 2.1/id ")]
        (open_,) = [line for line in lines if line.startswith("| 2.1/name ")]
        assert proven.endswith("| `test_a::test_one` |")
        assert "**open**" in open_
