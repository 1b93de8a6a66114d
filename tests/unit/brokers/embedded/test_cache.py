import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.brokers.embedded import cache
from headwater.errors import SetupError


def test_a_cached_directory_is_created_once(tmp_path: Path) -> None:
    entry = tmp_path / "new" / "entry"
    created: list[Path] = []

    def make(path: Path) -> None:
        path.write_text("content")
        created.append(path)

    for _ in range(2):
        assert cache.ensure(entry, make).read_text() == "content"
    assert len(created) == 1
    assert list(entry.parent.iterdir()) == [entry]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_two_concurrent_calls(tmp_path: Path, kind: str) -> None:
    entry, both = tmp_path / "entry", threading.Barrier(2)

    def make(path: Path) -> None:
        if kind == "folder":
            path.mkdir()
        (path / "jar" if kind == "folder" else path).write_text("content")
        both.wait(10)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: cache.ensure(entry, make), range(2))) == [entry, entry]
    assert (entry / "jar" if kind == "folder" else entry).read_text() == "content"
    assert list(tmp_path.iterdir()) == [entry]


def test_a_failure_leaves_no_directory(tmp_path: Path) -> None:
    def make(path: Path) -> None:
        path.mkdir()
        raise SetupError("no")

    with pytest.raises(SetupError, match="no"):
        cache.ensure(tmp_path / "entry", make)
    assert list(tmp_path.iterdir()) == []


def test_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match=f"The cache directory {tmp_path}/file is not writable"):
        cache.ensure(tmp_path / "file" / "entry", Path.touch)
