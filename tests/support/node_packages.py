"""Installs npm packages for tests into the cache directory, pinned by a package-lock.json."""

import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.brokers.embedded import cache
from tests.support.kafka import CACHE_DIR

PACKAGES = ("package.json", "package-lock.json")
INSTALL_WITHIN_S = 300.0

Build = Callable[[str, Path], None]
"""Is called with the path of `node` and the directory after the packages are installed."""


def node() -> str:
    """Return the path of `node`. Skip the test without Node, but not in CI."""
    path = shutil.which("node")
    if path is None or shutil.which("npm") is None:
        assert not os.environ.get("CI"), "CI needs Node (`node`, `npm`)"
        pytest.skip("there is no Node (`node`, `npm`)")
    return path


def installed(name: str, folder: Path, build: Build | None = None) -> Path:
    """Return a cached directory with the node_modules that a folder's files pin.

    It also has the results of `build`.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file())
    tag = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    return cache.ensure(CACHE_DIR.expanduser() / f"{name}-{tag}", functools.partial(_install, node(), folder, build))


def _install(node_command: str, packages: Path, build: Build | None, folder: Path) -> None:
    folder.mkdir()
    for name in PACKAGES:
        shutil.copy(packages / name, folder)
    npm = shutil.which("npm")
    assert npm is not None
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    if build is not None:
        build(node_command, folder)
