"""What the children of `headwater up` are told, and which of them it can't start without."""

import sys
import threading
from pathlib import Path

import pytest
from pydantic import SecretStr

from headwater.app.home import Home
from headwater.app.up import child_environment, supervised, wait_until_serving
from headwater.children import Service, spawn
from headwater.errors import SetupError
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


def test_an_essential_child_that_refuses_ends_the_start() -> None:
    refuser = [sys.executable, "-c", "raise SystemExit(2)"]
    with supervised() as supervisor:
        for name, essential in (("ingest live", False), ("controller", True)):
            supervisor.add(Service(name, lambda: spawn(refuser), essential=essential)).wait(10)
        with pytest.raises(SetupError, match="The controller process"):
            wait_until_serving(Settings(), supervisor, threading.Event())
