"""The storage formatter, played by a shell script."""

from pathlib import Path

import pytest

from headwater.brokers.embedded import storage
from headwater.brokers.embedded.java import Java
from headwater.brokers.embedded.runtime import KafkaRuntime
from headwater.errors import SetupError


def runtime_of(script: str, folder: Path) -> KafkaRuntime:
    java = folder / "java"
    java.touch(0o755)
    java.write_text(f"#!/bin/sh\n{script}\n")
    return KafkaRuntime(Java(java, 25, ""), (), folder / "cache.aot")


@pytest.fixture
def kafka_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "kafka"
    folder.mkdir()
    (folder / "server.properties").touch()
    return folder


def test_a_formatted_folder_is_renamed(kafka_dir: Path, tmp_path: Path) -> None:
    storage.ensure_formatted(kafka_dir, runtime_of("mkdir data", tmp_path), "SCRAM-SHA-512=[]")
    assert (kafka_dir / "data").is_dir()
    assert not (kafka_dir / "formatting").exists()


def test_the_last_line_of_an_error_is_reported(kafka_dir: Path, tmp_path: Path) -> None:
    runtime = runtime_of("echo a warning >&2; echo no space >&2; exit 1", tmp_path)
    with pytest.raises(SetupError, match=r"could not set up its data folder in .*: no space"):
        storage.ensure_formatted(kafka_dir, runtime, "SCRAM-SHA-512=[]")


def test_a_formatter_that_hangs_is_a_setup_error(
    kafka_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_TIMEOUT_S", 0.2)
    with pytest.raises(SetupError, match=r"within 0\.2 s"):
        storage.ensure_formatted(kafka_dir, runtime_of("exec sleep 60", tmp_path), "SCRAM-SHA-512=[]")
    assert not (kafka_dir / "data").exists()
