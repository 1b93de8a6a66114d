"""Templates begin projects, and are added to projects."""

from pathlib import Path

import pytest

from headwater_client.files.cases import read_cases
from headwater_client.files.errors import FolderError
from headwater_client.files.folder import read_folder
from headwater_client.files.templates import begin, templates


@pytest.mark.parametrize("template", templates())
def test_a_template_is_a_project_with_cases(template: str, tmp_path: Path) -> None:
    written = begin(template, tmp_path / "my feeds")
    assert all(path.is_file() for path in written)
    folder = read_folder(tmp_path / "my feeds", variables={})
    assert (folder.project, folder.url) == ("my-feeds", "http://127.0.0.1:8080")
    [pipeline] = folder.pipelines
    assert pipeline.key == template
    for values in pipeline.values.values():
        assert values.summary().count > 0
    assert {case.pipeline for case in read_cases(tmp_path / "my feeds", folder)} == {template}


def test_templates_are_added_to_a_project(tmp_path: Path) -> None:
    (tmp_path / "headwater.yaml").write_text("project: wallets\n")
    for template in templates():
        begin(template, tmp_path)
    folder = read_folder(tmp_path, variables={})
    assert (folder.project, len(folder.pipelines)) == ("wallets", len(templates()))
    with pytest.raises(FolderError, match="exists already"):
        begin("price-feed", tmp_path)


def test_unknown_templates(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="There is no template 'x'; choose one of decoded-events, large-transfers"):
        begin("x", tmp_path)
