"""The output of child processes in log files of bounded size."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from headwater.child_logs import _LogFile, captured_output, last_error
from headwater.children import spawn
from tests.support.waiting import until


def ends_with(path: Path, text: bytes) -> bool:
    """Return whether a file ends with a text. Returns False while a full log is being replaced."""
    with suppress(FileNotFoundError):
        return path.read_bytes().endswith(text)
    return False


def write(path: Path, *chunks: bytes, max_bytes: int = 1 << 20) -> None:
    """Write chunks to a captured output, and return when all of them are in the file."""
    with captured_output(path, max_bytes) as writer:
        for chunk in chunks:
            os.write(writer, chunk)
            until(partial(ends_with, path, chunk))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "kafka.log"


def test_appends_over_restarts(path: Path) -> None:
    write(path, b"one\n")
    write(path, b"two\n", b"three\n")
    assert path.read_text() == "one\ntwo\nthree\n"


def test_bounded_while_the_child_runs(path: Path) -> None:
    with captured_output(path, 10_000) as output:
        child = spawn(
            [sys.executable, "-c", "for n in range(20_000): print(f'line {n:05}')"],
            stdout=output,
            stderr=subprocess.DEVNULL,
        )
    assert child.wait(30) == 0
    until(partial(ends_with, path, b"line 19999\n"))
    assert sorted(each.name for each in path.parent.iterdir()) == ["kafka.log", "kafka.log.1"]
    assert all(each.stat().st_size <= 10_000 + (64 << 10) for each in path.parent.iterdir())


def test_two_writers_of_one_log_keep_what_is_newest(path: Path) -> None:
    """A worker and its successor write to the same log."""
    with captured_output(path, 100) as first, captured_output(path, 100) as second:
        for number in range(40):
            line = f"line {number:02}\n".encode()
            os.write(first if number % 2 else second, line)
            until(partial(ends_with, path, line))
    kept = path.with_name("kafka.log.1").read_text() + path.read_text()
    assert kept.splitlines()[-3:] == ["line 37", "line 38", "line 39"]
    assert all(each.stat().st_size <= 100 for each in path.parent.iterdir())


def test_many_logs_take_one_thread(path: Path) -> None:
    write(path, b"started\n")
    before = threading.active_count()
    for number in range(20):
        write(path.with_name(f"worker-{number}.log"), b"line\n")
    assert threading.active_count() <= before


def test_a_folder_that_is_removed_does_not_stall_the_child(path: Path) -> None:
    with captured_output(path, 1000) as writer:
        path.unlink()
        path.parent.rmdir()
        for _ in range(4):
            os.write(writer, b"x" * 50_000)
    write(path.parents[1] / "other" / "kafka.log", b"another\n")


def test_an_unwritable_log_does_not_stall_the_child(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_LogFile, "append", full)
    with captured_output(path) as writer:
        for _ in range(4):
            os.write(writer, b"x" * 50_000)  # more than the capacity of a pipe


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
    assert last_error(path) == expected


def test_last_error_without_a_log(path: Path) -> None:
    assert last_error(path) == ""
