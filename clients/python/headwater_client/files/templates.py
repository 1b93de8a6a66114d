"""Begins a pipeline from a template."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater_client.files.errors import FolderError
from headwater_client.files.folder import PROJECT_FILE
from headwater_client.files.schema import NAME_PATTERN
from headwater_client.files.yaml_file import load

TEMPLATES: Final = Path(__file__).parent.parent / "templates"
"""Each template is a folder with a pipeline of its name, and all files that belong to it."""
_PROJECT: Final = """project: {project}
url: ${{HEADWATER_URL:-http://127.0.0.1:8080}}
"""


def templates() -> dict[str, str]:
    """Return the description of each template, by its name."""
    return {path.name: load(path / f"{path.name}.yaml")["description"] for path in sorted(TEMPLATES.iterdir())}


def begin(template: str, folder: Path) -> list[Path]:
    """Write the files of a template into a folder, and return their paths.

    A folder without a headwater.yaml becomes a project with the folder's name. Raises FolderError when there is no such
    template, or when a file of the template exists already.
    """
    if template not in templates():
        raise FolderError(f"There is no template {template!r}; choose one of {', '.join(templates())}.")
    texts = _texts(TEMPLATES / template)
    if not (folder / PROJECT_FILE).is_file():
        texts = {PROJECT_FILE: _PROJECT.format(project=_project_name(folder)), **texts}
    for name in texts:
        if (folder / name).exists():
            raise FolderError(f"{folder / name} exists already. Name another folder, or remove the file.")
    return [_write(folder / name, text) for name, text in texts.items()]


def _texts(template: Path) -> Mapping[str, str]:
    files = sorted(path for path in template.rglob("*") if path.is_file())
    return {path.relative_to(template).as_posix(): path.read_text("utf-8") for path in files}


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def _project_name(folder: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name)[:100].strip("-")
    return name if re.match(NAME_PATTERN, name) else "pipelines"
