"""The published schemas and the published example match the code."""

import json
from pathlib import Path

import pytest

from headwater_client.files.cases import CaseFile
from headwater_client.files.folder import read_folder
from headwater_client.files.schema import FileModel, Pipeline, Project, json_schema

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "wallets"


@pytest.mark.parametrize(("name", "model"), [("pipeline", Pipeline), ("project", Project), ("cases", CaseFile)])
def test_the_schemas(name: str, model: type[FileModel]) -> None:
    published = json.loads((ROOT / "docs" / "reference" / f"{name}.schema.json").read_text())
    assert published == json_schema(model), f"run `headwater schema {name} > docs/reference/{name}.schema.json`"


def test_the_page_prints_the_example() -> None:
    page = (ROOT / "docs" / "pipelines_as_files.md").read_text()
    for file in EXAMPLE.glob("*.yaml"):
        assert f"```yaml\n{file.read_text()}```" in page
    [pipeline] = read_folder(EXAMPLE, variables={}).pipelines
    assert pipeline.values["whales"].summary().count == 3
