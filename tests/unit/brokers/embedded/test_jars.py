"""The jars of Maven and of the package headwater-embedded, and their sums."""

import hashlib
import os
import shutil
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
    monkeypatch.setattr(jars, "CHECKSUMS", sums)
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
    jars.CHECKSUMS.write_text("other")
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
        jars.download_jars(tmp_path / "cache")


@pytest.fixture
def package(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package with the jars, not under the real name. Return its folder of jars."""
    package = tmp_path / "packages" / "some_jars"
    shutil.copytree(folder, package / "jars")
    (package / "__init__.py").touch()
    shutil.copy(jars.CHECKSUMS, package / "jars")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(jars, "_PACKAGE", "some_jars")
    return package / "jars"


def test_the_jars_of_the_package_come_before_a_download(package: Path, tmp_path: Path) -> None:
    assert jars.find_jars(tmp_path / "cache") == [package / name for name in NAMES]
    assert not (tmp_path / "cache").exists()


def test_a_package_of_another_version_is_refused(package: Path, tmp_path: Path) -> None:
    (package / jars.CHECKSUMS.name).write_text("other")
    with pytest.raises(SetupError, match="headwater and headwater-embedded are of different versions"):
        jars.find_jars(tmp_path / "cache")
