"""The data directory."""

import shutil
from pathlib import Path

import pytest

from headwater.app.data_directory import DataDirectory
from headwater.errors import SetupError


class TestHome:
    def test_the_directory_is_private(self, tmp_path: Path) -> None:
        home = DataDirectory(tmp_path / "data")
        home.create()
        assert home.path.stat().st_mode & 0o777 == 0o700

    def test_only_one_process_of_a_kind(self, tmp_path: Path) -> None:
        home = DataDirectory(tmp_path)
        with home.locked("up"):
            with home.locked("controller"):
                pass
            with pytest.raises(SetupError, match="in use by another `headwater up`"), home.locked("up"):
                pass
        with home.locked("up"):
            pass

    def test_a_copy_of_a_directory_has_another_lock(self, tmp_path: Path) -> None:
        home, copy = DataDirectory(tmp_path / "data"), DataDirectory(tmp_path / "copy")
        home.create()
        with home.locked("controller") as lock:
            shutil.copytree(home.path, copy.path)
            with copy.locked("controller") as other:
                assert other != lock
        with home.locked("controller") as again:
            assert again == lock

    def test_a_directory_that_cannot_be_created(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SetupError, match="--data-dir"):
            DataDirectory(tmp_path / "file" / "data").create()

    def test_a_database_has_shared_users_or_one_restore(self, tmp_path: Path) -> None:
        home = DataDirectory(tmp_path)
        with home.database_lock(), home.database_lock():
            self.refused(home, "Stop all of them", alone=True)
        with home.database_lock(exclusive=True):
            self.refused(home, "in progress", alone=False)

    @staticmethod
    def refused(home: DataDirectory, why: str, *, alone: bool) -> None:
        with pytest.raises(SetupError, match=why), home.database_lock(exclusive=alone):
            pass
