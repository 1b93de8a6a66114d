"""The check of the jars that Maven downloaded."""

import hashlib
import os
from pathlib import Path

import pytest

from headwater.brokers.embedded import jars
from headwater.errors import SetupError

NAMES = ("a-1.jar", "b-2.jar")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two jars and their sums."""
    folder, sums = tmp_path / "jars", tmp_path / "jars.sha256"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(name)
    sums.write_text("".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in NAMES))
    monkeypatch.setattr(jars, "SUMS", sums)
    return folder


def test_the_jars_of_this_version_pass(folder: Path) -> None:
    jars.check_jars(folder)


@pytest.mark.parametrize("name", ["a-1.jar", "c-3.jar"])
def test_a_jar_that_differs_or_is_not_listed_is_named(folder: Path, name: str) -> None:
    (folder / name).write_text("changed")
    with pytest.raises(SetupError, match=rf"Headwater: {name} \(.*Remove these from Maven's local repository"):
        jars.check_jars(folder)


def test_a_missing_jar_is_named(folder: Path) -> None:
    (folder / "b-2.jar").unlink()
    with pytest.raises(SetupError, match=r"b-2\.jar"):
        jars.check_jars(folder)


def test_the_name_of_the_folder_changes_with_the_sums(folder: Path, tmp_path: Path) -> None:
    before = jars.jars_dir(tmp_path)
    jars.SUMS.write_text("other")
    assert jars.jars_dir(tmp_path).name[:12] == before.name[:12] == "kafka-4.3.1-"
    assert jars.jars_dir(tmp_path) != before


def test_a_download_that_takes_too_long_is_a_setup_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.touch(0o755)
    maven.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setenv("PATH", f"{maven.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(jars, "MAVEN_TIMEOUT_S", 0.2)
    with pytest.raises(SetupError, match=r"did not download Kafka within 0\.2 s: check the network"):
        jars.fetch_jars(tmp_path / "cache")
