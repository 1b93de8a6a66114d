"""The committed reference pages say what the code does."""

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from headwater.cli.application import app
from headwater.cli.docs import REFERENCE, configuration
from headwater.cli.docs.pages import PAGES
from headwater.errors import InvalidExpression
from headwater.model.outputs import MAX_OUTPUT_BYTES, MAX_OUTPUTS_PER_RECORD, MAX_TOTAL_OUTPUT_BYTES
from headwater.model.transforms.redis_set_filter import MAX_EXPRESSION_CHARS
from headwater.model.value_sets import MAX_VALUE_CHARS
from headwater.sandbox.deno_command import HEAP_MB
from headwater.sandbox.script_batch import CPU_LIMIT_S
from headwater.transforms.bloblang.methods import METHODS
from headwater.transforms.bloblang.parser import MAX_NESTING
from headwater.transforms.expression import parse
from tests.unit.api.installation import installation

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / REFERENCE
DOCS = ROOT / "docs"


def page_rows(name: str) -> list[list[str]]:
    """Return the cells of each table row of a page."""
    lines = (COMMITTED / name).read_text("utf-8").splitlines()
    rows = [re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in lines if line.startswith("|")]
    return [[cell.replace("\\|", "|") for cell in row] for row in rows]


def cells(name: str, count: int) -> list[list[str]]:
    """Return the first cells of rows that start with this number of code cells.

    They are without backticks.
    """
    rows = [row[:count] for row in page_rows(name) if len(row) > count]
    return [[cell[1:-1] for cell in row] for row in rows if all(re.fullmatch("`.+`", cell) for cell in row)]


def ways_out() -> list[list[str]]:
    """Return the invalid expressions on the page, with their errors."""
    rows = page_rows("expressions.md")
    begin = rows.index(["Written", "Error"])
    return [[expression[1:-1], answer] for expression, answer in rows[begin + 2 :]]


class TestGenerated:
    @pytest.mark.parametrize("name", PAGES)
    def test_pages_equal_the_output_of_the_command(self, name: str) -> None:
        assert (COMMITTED / name).read_text("utf-8") == PAGES[name](), "run `make docs` and commit what it writes"

    def test_the_command_writes_all_pages(self, tmp_path: Path) -> None:
        out = tmp_path / "new" / "reference"
        assert CliRunner().invoke(app, ["docs", "--out", str(out)]).exit_code == 0
        assert {path.name: path.read_text("utf-8") for path in out.iterdir()} == {
            name: page() for name, page in PAGES.items()
        }

    def test_openapi_equals_the_response_of_the_api(self) -> None:
        with installation() as headwater:
            answered = headwater.nobody().get("/openapi.json").json()
        assert json.loads(PAGES["openapi.json"]()) == answered

    @pytest.mark.parametrize(
        "row",
        [
            "| tokens per price request | 1 to 200 |",
            "| `limit` of lines of `deploy/logs` | 1 to 1,000, default 100 |",
            "| values of one call of `flow.contains` | 1,000 |",
            "| brackets of a filter expression | 32 deep |",
            "| characters of an `Idempotency-Key`, visible ASCII | 1 to 255 |",
            "| pools in the script of a price recipe | 5,000 |",
        ],
    )
    def test_limits_name(self, row: str) -> None:
        assert row in PAGES["limits.md"]()

    def test_a_body_that_is_an_array_has_a_table_of_its_items(self) -> None:
        _, _, prices = PAGES["endpoints.md"]().partition("### POST /api/v1/developer/prices/stats")
        assert "Request body, an array (1 to 200 items) of:" in prices
        assert "| `token_address` | string | required |" in prices

    @pytest.mark.parametrize(("path", "models"), configuration.MODELS_WITH_DOCSTRINGS.items())
    def test_a_section_of_the_configuration_says_what_its_type_does(
        self, path: str, models: Mapping[str, type[BaseModel]]
    ) -> None:
        page = PAGES["configuration.md"]()
        for name, model in models.items():
            first = (inspect.getdoc(model) or "").splitlines()[0]
            assert f"## `{path}`, type `{name}`\n\n{first}\n" in page


class TestWritten:
    def test_expressions_name_the_limits(self) -> None:
        text = (COMMITTED / "expressions.md").read_text("utf-8")
        for limit in (f"{MAX_EXPRESSION_CHARS:,} characters", f"{MAX_NESTING} deep", f"{MAX_VALUE_CHARS:,} characters"):
            assert limit in text

    @pytest.mark.parametrize(("expression", "record", "selected"), cells("expressions.md", 3))
    def test_documented_expressions_select_the_documented_values(
        self, expression: str, record: str, selected: str
    ) -> None:
        assert sorted(parse(expression).select(record.encode())) == json.loads(selected)

    def test_every_method_of_expressions_has_an_example(self) -> None:
        examples = " ".join(expression for expression, *_ in cells("expressions.md", 3))
        assert [name for name in METHODS if f".{name}(" not in examples] == []

    @pytest.mark.parametrize(("expression", "answer"), ways_out())
    def test_documented_invalid_expressions_are_rejected(self, expression: str, answer: str) -> None:
        with pytest.raises(InvalidExpression) as caught:
            parse(expression)
        assert caught.value.detail == answer

    def test_scripts_name_the_limits(self) -> None:
        text = (COMMITTED / "scripts.md").read_text("utf-8")
        limits = (
            f"{CPU_LIMIT_S * 1000:.0f} ms",
            f"{HEAP_MB} MB",
            f"| {MAX_OUTPUTS_PER_RECORD:,} |",
            f"{MAX_OUTPUT_BYTES:,}",
            f"{MAX_TOTAL_OUTPUT_BYTES:,}",
        )
        for limit in limits:
            assert limit in text


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The name of a language, which only looks like an address."""


class TestAll:
    @pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda path: path.name)
    def test_links_lead_somewhere(self, path: Path) -> None:
        for link, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", path.read_text("utf-8")):
            if "://" not in link:
                page = path.parent / link if link else path
                assert page.exists(), link
                assert not anchor or anchor in anchors(page), f"{link}#{anchor}"

    @pytest.mark.parametrize("path", sorted(COMMITTED.iterdir()), ids=lambda path: path.name)
    def test_pages_have_no_local_paths_and_no_external_addresses(self, path: Path) -> None:
        text = path.read_text("utf-8").replace(JSON_SCHEMA_DIALECT, "")
        assert "://" not in text
        assert not re.search(r"/(home|root|tmp|usr|var)/", text)

    def test_the_list_of_pages_has_every_page(self) -> None:
        links = set(re.findall(r"\]\(([^)#]+)", (DOCS / "README.md").read_text("utf-8")))
        pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if path.name != "README.md"}
        assert pages - links == set()
