"""Runs the tests of the compiled loops under sanitizers.

They are gcc's address and undefined-behaviour sanitizers.

Python's allocator would hide writes beyond a buffer, so these runs use malloc.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from headwater.native import ffi
from tests.integration.native import sanitized

SOURCES: Final = ffi.LIBRARY_PATH.parent
FLAGS: Final = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-shared",
    "-fPIC",
]
LOOP_TESTS: Final = [
    "tests/unit/native",
    "tests/unit/sandbox/test_json_lines.py",
    "tests/unit/sandbox/test_script_batch.py",
    "tests/unit/sinks",
    "tests/unit/stores/test_sets_encoded_values.py",
    "tests/unit/stores/test_sets_bloom.py",
    "tests/unit/stores/test_sets_value_encoding.py",
    "tests/unit/transforms/test_redis_set_filter.py",
]
BRIDGE_TESTS: Final = ["tests/contract/test_bridge.py", "tests/contract/test_sink.py"]
PRELOADED: Final = ["libasan.so", "libubsan.so", "libstdc++.so.6"]
RUN_S: Final = 280.0
FINDING: Final = 86
"""The exit status of a process in which a sanitizer has found an error."""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def gcc() -> str:
    """The compiler. CI must have one."""
    found = shutil.which("gcc")
    if found is None:
        reason = "There is no gcc, which compiles the library with sanitizers: install it (Debian's package gcc)."
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    return found


def build(gcc: str, sources: Path, target: Path) -> Path:
    """Compile all C files of a folder into a library with sanitizers."""
    subprocess.run([gcc, *FLAGS, *sorted(map(str, sources.glob("*.c"))), "-o", str(target)], check=True)
    return target


def run(gcc: str, built: Path, tests: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run tests with a library.

    An error ends the process, and the sanitizers write it to stderr.
    """
    paths = [subprocess.check_output([gcc, f"-print-file-name={name}"], text=True).strip() for name in PRELOADED]
    environment = {
        sanitized.LIBRARY: str(built),
        "LD_PRELOAD": " ".join(paths),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": f"exitcode={FINDING}:detect_leaks=0",  # Python keeps objects until its end
        "UBSAN_OPTIONS": f"exitcode={FINDING}:print_stacktrace=1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "--capture=no", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-p", sanitized.__name__, *tests],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


@pytest.fixture(scope="module")
def built(gcc: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(gcc, SOURCES, tmp_path_factory.mktemp("sanitized") / "native.so")


@pytest.mark.parametrize("tests", [LOOP_TESTS, BRIDGE_TESTS], ids=["loops", "bridge"])
def test_the_sanitizers_find_no_error(gcc: str, built: Path, tests: list[str]) -> None:
    ended = run(gcc, built, tests)
    assert ended.returncode == 0, ended.stdout + ended.stderr


PLANTED: Final = {
    "overflow": ("i < count; i++) {\n        starts[i] = start;", "i <= count; i++) {\n        starts[i] = start;"),
    "undefined": ("int32_t start = 0;", "int32_t start = INT32_MAX;"),
}


@pytest.mark.parametrize(("flaw", "finding"), [("overflow", "heap-buffer-overflow"), ("undefined", "signed integer")])
def test_a_planted_error_is_found(gcc: str, tmp_path: Path, flaw: str, finding: str) -> None:
    """This test shows that the other runs can fail."""
    before, after = PLANTED[flaw]
    for source in SOURCES.glob("*.[ch]"):
        shutil.copy(source, tmp_path)
    column = tmp_path / "bytes_column.c"
    assert before in column.read_text()
    column.write_text(column.read_text().replace(before, after))
    built = build(gcc, tmp_path, tmp_path / "native.so")
    ended = run(gcc, built, ["tests/unit/native/test_bytes_column.py"])
    assert finding in ended.stderr, ended.stdout
    assert ended.returncode == FINDING
