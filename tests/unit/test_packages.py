"""The packages that `make dist` builds fit together."""

import re
import tomllib
from pathlib import Path
from typing import Any

import headwater
from headwater import native
from headwater.brokers.embedded.jars import CHECKSUMS

ROOT = Path(__file__).parents[2]
EMBEDDED = ROOT / "embedded"


def project(folder: str) -> dict[str, Any]:
    text = (ROOT / folder / "pyproject.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


def test_all_packages_have_the_version_of_the_server() -> None:
    version = headwater.__version__
    assert project("embedded")["version"] == project("clients/python")["version"] == version
    assert (ROOT / "requirements/headwater_embedded.in").read_text("utf-8") == f"headwater-embedded =={version}\n"
    assert (ROOT / "requirements/headwater_client.in").read_text("utf-8") == f"headwater-client[cli] =={version}\n"
    assert f'"headwater =={version}"' in (EMBEDDED / "pyproject.toml").read_text("utf-8")


def test_one_package_has_the_command() -> None:
    """When two packages have one file, the removal of one of them removes it."""
    assert project("clients/python")["scripts"] == {"headwater": "headwater_client.cli:main"}
    assert [project(folder).get("scripts") for folder in (".", "embedded")] == [None, None]


def test_the_notice_names_every_jar_and_every_licence() -> None:
    notice = (EMBEDDED / "NOTICE").read_text("utf-8")
    jars = [line.split()[1] for line in CHECKSUMS.read_text("utf-8").splitlines()]
    assert sorted(re.findall(r"^  (\S+\.jar)\b", notice, re.MULTILINE)) == sorted(jars)
    texts = {f"licenses/{path.name}" for path in (EMBEDDED / "licenses").iterdir()}
    assert set(re.findall(r"licenses/[\w-]+\.txt", notice)) == texts


def test_requirements_are_pinned_with_checksums_and_name_no_index() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip() and "#" not in line]
        assert all(re.match(r"[\w.-]+==\S+.* \\$|    --hash=sha256:[0-9a-f]{64}( \\)?$", line) for line in lines), path


def test_the_native_library_needs_no_version_of_glibc() -> None:
    """The tag of the wheel says so."""
    [library] = Path(native.__file__).parent.glob("*.so")
    assert b"GLIBC" not in library.read_bytes()
