"""The conditions under which a backup starts."""

from pathlib import Path

import pytest

from headwater.app.backup import _valkey_client, backup
from headwater.app.endpoints import Endpoints
from headwater.errors import SetupError
from headwater.settings import Settings
from headwater.stores.embedded_valkey import EmbeddedValkey


def test_a_missing_data_directory_with_an_external_database(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "none", database_url="postgresql://127.0.0.1:1/none")
    with pytest.raises(SetupError, match="HEADWATER_REDIS_URL"):
        backup(settings, tmp_path / "backup")


def test_a_second_backup_does_not_use_the_valkey_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmbeddedValkey, "start", lambda _: pytest.fail("Valkey is started"))
    endpoints = Endpoints.from_settings(Settings(data_dir=tmp_path))
    locks = endpoints.data_directory
    with (
        locks.locked("backup"),  # the first backup, which runs the Valkey of a stopped installation
        locks.locked("up"),
        pytest.raises(SetupError, match="another `headwater backup`"),
        _valkey_client(endpoints),
    ):
        pass
