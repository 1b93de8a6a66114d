"""What the children of `headwater up` are told."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from headwater.app.home import Home
from headwater.app.up import child_environment
from headwater.settings import Settings


def test_paths_hold_in_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        data_dir=Path("data"), ingests=Path("ingests.json"), stream_bindings=None, database_url=SecretStr("secret")
    )
    environment = child_environment(settings, Home(settings.data_dir))
    assert environment["HEADWATER_INGESTS"] == str(tmp_path / "ingests.json")
    assert environment["HEADWATER_DATA_DIR"] == str(tmp_path / "data")
    assert environment["HEADWATER_DATABASE_URL"] == "secret"
