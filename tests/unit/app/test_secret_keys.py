"""The secret key of an installation."""

from pathlib import Path

import pytest

from headwater.app.data_directory import DataDirectory
from headwater.app.secret_keys import secret_key
from headwater.errors import SetupError
from headwater.settings import Settings


def key_in(directory: Path) -> bytes:
    return secret_key(Settings(data_dir=directory), DataDirectory(directory))


def test_the_secret_key_is_created_once(tmp_path: Path) -> None:
    assert key_in(tmp_path) == key_in(tmp_path)


def test_without_a_data_directory_the_setting_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="Set HEADWATER_SECRET_KEY"):
        key_in(tmp_path / "missing")
