"""The data directory."""

from pathlib import Path

import pytest

from headwater.app.home import Home
from headwater.errors import SetupError


class TestHome:
    def test_it_is_private(self, tmp_path: Path) -> None:
        home = Home(tmp_path / "data")
        home.create()
        assert home.path.stat().st_mode & 0o777 == 0o700

    def test_only_one_process_of_a_kind(self, tmp_path: Path) -> None:
        home = Home(tmp_path)
        with home.locked("up"):
            with home.locked("controller"):
                pass
            with pytest.raises(SetupError, match="in use by another `headwater up`"), home.locked("up"):
                pass
        with home.locked("up"):
            pass

    def test_a_place_that_can_not_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SetupError, match="--data-dir"):
            Home(tmp_path / "file" / "data").create()
