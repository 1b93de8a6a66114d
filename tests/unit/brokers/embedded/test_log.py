import os
import threading
from pathlib import Path

import pytest

from headwater.brokers.embedded import log


def write(path: Path, *chunks: bytes) -> None:
    """Send chunks through the capture, and return when all of them are in the file."""
    before = set(threading.enumerate())
    writer = log.capture(path)
    (copier,) = set(threading.enumerate()) - before
    for chunk in chunks:
        os.write(writer, chunk)
    os.close(writer)
    copier.join(10)
    assert not copier.is_alive()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "kafka.log"


def test_appends_over_restarts(path: Path) -> None:
    write(path, b"one\n")
    write(path, b"two\n", b"three\n")
    assert path.read_text() == "one\ntwo\nthree\n"


def test_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MAX_BYTES", 100)
    for number in range(50):
        write(path, f"line {number:02}\n".encode())
    assert path.read_text().endswith("line 49\n")
    assert sorted(each.name for each in path.parent.iterdir()) == ["kafka.log", "kafka.log.1"]
    assert all(each.stat().st_size <= 100 for each in path.parent.iterdir())


def test_a_log_that_can_not_be_written_does_not_stall_the_child(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log, "_append", full)
    write(path, *[b"x" * 50_000] * 4)  # more than a pipe holds


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ""),
        ("WARN a\nINFO b\n\n", "INFO b"),
        ("ERROR a\nERROR b\nINFO c\n", "ERROR b"),
        ("java.lang.IllegalStateException: no\n\tat Kafka\n", "java.lang.IllegalStateException: no"),
    ],
)
def test_last_error(path: Path, content: str, expected: str) -> None:
    write(path, content.encode() or b"\n")
    assert log.last_error(path) == expected


def test_last_error_without_a_log(path: Path) -> None:
    assert log.last_error(path) == ""
