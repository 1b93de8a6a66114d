"""The distribution of the client names what it needs."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater_client

FOLDER = Path(__file__).parents[3] / "clients" / "python"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text("utf-8"))["project"]


def imported() -> Iterator[str]:
    """Yield the packages that the client imports, without the standard library and itself."""
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            yield from (name.partition(".")[0] for name in names)


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^a-z0-9-]", requirement)[0].replace("-", "_") for requirement in requirements}


def test_the_dependencies_are_what_is_imported() -> None:
    others = set(imported()) - sys.stdlib_module_names - {"headwater_client"}
    needed = names(PROJECT["dependencies"])
    assert len(needed) == 3
    extras = PROJECT["optional-dependencies"]
    assert others == needed | names(extras["kafka"]) | names(extras["cli"]) - {"pyyaml"} | {"yaml"}


def test_type_checkers_use_the_annotations() -> None:
    assert (FOLDER / "headwater_client" / "py.typed").exists()


def test_the_help_is_printed_without_the_http_client() -> None:
    program = "import sys; from headwater_client.cli.main import run; run(['--help']); print('httpx2' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.stdout.splitlines()[-1] == "False", ended.stderr


def test_all_names_can_be_imported() -> None:
    assert all(getattr(headwater_client, name) is not None for name in headwater_client.__all__)
    with pytest.raises(AttributeError, match="module 'headwater_client' has no attribute 'nothing'"):
        headwater_client.__getattr__("nothing")
