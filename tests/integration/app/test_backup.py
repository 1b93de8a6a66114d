"""Backup and restore of a data directory, with a real SQLite and Valkey."""

import base64
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headwater.app import backup as backups
from headwater.app.backup import backup, restore, verify
from headwater.app.data_directory import DataDirectory
from headwater.app.database import connect_database
from headwater.app.endpoints import Endpoints
from headwater.errors import SetupError
from headwater.model.lease import Candidate
from headwater.model.value_sets import Dataset, filter_set_id
from headwater.settings import Settings
from headwater.stores.redis.client import Client
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.stores.sql.database import Database
from tests.support.deployments import deploy
from tests.support.sql import OWNER, a_flow

FILTER = filter_set_id("f1", "t1")


def settings_of(directory: Path) -> Settings:
    return Settings(data_dir=directory)


@contextmanager
def stores(directory: Path) -> Iterator[tuple[Database, Client]]:
    """Open the stores of a data directory for the block. Its Valkey runs meanwhile."""
    endpoints = Endpoints(settings_of(directory), DataDirectory(directory))
    with connect_database(endpoints) as database, backups._valkey_client(endpoints) as client:
        yield database, client


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    DataDirectory(directory).create()
    with stores(directory) as (database, client):
        database.flows.create(a_flow())
        deploy(database)
        RedisSetStore(client).replace(FILTER, ["0xaa", "0xbb"])
    (directory / "api-key").write_text("hw_live_key\n")
    return directory


def change(directory: Path) -> None:
    """Change everything after the backup."""
    with stores(directory) as (database, client):
        database.flows.create(a_flow("f2"))
        RedisSetStore(client).replace(FILTER, ["0xcc"])


def content(directory: Path) -> tuple[object, ...]:
    with stores(directory) as (database, client):
        sets = RedisSetStore(client)
        flows = [flow.id for flow in database.flows.list(OWNER)]
        passwords = [deployment.reader_password for deployment in database.deployments.list_active()]
        return flows, passwords, sets.contains_many(FILTER, ["0xaa", "0xbb", "0xcc"]), sets.count(FILTER).size


def test_a_restore_brings_back_the_content(installation: Path, tmp_path: Path) -> None:
    settings, file, before = settings_of(installation), tmp_path / "backup", content(installation)
    assert backup(settings, file) == verify(file)
    assert file.stat().st_mode & 0o777 == 0o600
    change(installation)
    assert content(installation) != before
    restore(settings, file, replace=True)
    assert content(installation) == before
    kept = sorted(path.name for path in installation.glob("*.before-*"))
    assert [name.partition(".before-")[0] for name in kept if "-wal" not in name and "-shm" not in name] == [
        "headwater.db",
        "valkey",
    ]


def test_restore_into_an_empty_directory(installation: Path, tmp_path: Path) -> None:
    file, elsewhere = tmp_path / "backup", tmp_path / "elsewhere"
    before = content(installation)
    backup(settings_of(installation), file)
    restore(settings_of(elsewhere), file)
    assert content(elsewhere) == before
    assert (elsewhere / "api-key").read_text() == "hw_live_key\n"
    assert {(elsewhere / name).stat().st_mode & 0o777 for name in ("api-key", "secret-key", "headwater.db")} == {0o600}


def test_scripts_find_datasets_whose_names_the_server_could_not_restore(installation: Path, tmp_path: Path) -> None:
    with stores(installation) as (database, _):  # the backup has the dataset in the database alone
        for name in ("watched", "gone"):
            database.datasets.create(Dataset(name, OWNER, name, "pending", datetime.now(UTC), datetime.now(UTC)))
        database.datasets.set_state("watched", "live")
        database.datasets.set_state("gone", "deleting")
    file, elsewhere = tmp_path / "backup", tmp_path / "elsewhere"
    backup(settings_of(installation), file)
    restore(settings_of(elsewhere), file)
    with stores(elsewhere) as (_, client):
        assert RedisDatasetNames(client).resolve(OWNER, ["watched", "gone"]) == ["watched", None]


def test_a_backup_without_the_key_uses_the_existing_key(installation: Path, tmp_path: Path) -> None:
    file, before = tmp_path / "backup", content(installation)
    backup(settings_of(installation), file, with_secret_key=False)
    with pytest.raises(SetupError, match="without the secret key"):
        restore(settings_of(tmp_path / "elsewhere"), file)
    change(installation)
    restore(settings_of(installation), file, replace=True)
    assert content(installation) == before


def test_a_backup_without_the_key_holds_no_api_key(installation: Path, tmp_path: Path) -> None:
    backup(settings_of(installation), tmp_path / "without", with_secret_key=False)
    backup(settings_of(installation), tmp_path / "with")
    with zipfile.ZipFile(tmp_path / "without") as without, zipfile.ZipFile(tmp_path / "with") as complete:
        assert {*complete.namelist()} - {*without.namelist()} == {"api-key", "secret-key"}


def test_nothing_else_runs_the_valkey_of_a_stopped_installation_during_a_backup(installation: Path) -> None:
    data_directory = DataDirectory(installation)
    endpoints = Endpoints(settings_of(installation), data_directory)
    with backups._valkey_client(endpoints) as client:
        with pytest.raises(SetupError, match="in use by another `headwater up`"), data_directory.locked("up"):
            pass
        with pytest.raises(SetupError, match="in use by another `headwater backup`"), backups._valkey_client(endpoints):
            pass
        assert RedisSetStore(client).contains_many(FILTER, ["0xaa"]) == [True]
    with data_directory.locked("up"):
        pass


def _hold(directory: Path) -> Callable[[], object]:
    lock = DataDirectory(directory).locked("up")
    lock.__enter__()
    return lambda: lock.__exit__(None, None, None)


def test_a_restore_into_a_running_installation_is_rejected(installation: Path, tmp_path: Path) -> None:
    settings, file = settings_of(installation), tmp_path / "backup"
    backup(settings, file)
    change(installation)
    before = content(installation)
    release = _hold(installation)
    with pytest.raises(SetupError, match="in use by another"):
        restore(settings, file, replace=True)
    release()
    with stores(installation) as (database, _):
        database.leases.acquire("controller", Candidate("a"), 3600)
    with pytest.raises(SetupError, match="A controller holds"):
        restore(settings, file, replace=True)
    assert content(installation) == before


def test_existing_data_is_not_replaced_without_the_option(installation: Path, tmp_path: Path) -> None:
    settings, file = settings_of(installation), tmp_path / "backup"
    backup(settings, file)
    change(installation)
    before = content(installation)
    with pytest.raises(SetupError, match="--replace"):
        restore(settings, file)
    (installation / "headwater.db").rename(tmp_path / "moved")
    with pytest.raises(SetupError, match="--replace"):
        restore(settings, file)
    (tmp_path / "moved").rename(installation / "headwater.db")
    assert content(installation) == before


def test_a_damaged_file_is_rejected_before_any_change(installation: Path, tmp_path: Path) -> None:
    settings, file = settings_of(installation), tmp_path / "backup"
    backup(settings, file)
    before = content(installation)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SetupError, match="complete Headwater backup"):
        restore(settings, file, replace=True)
    assert content(installation) == before


def test_another_key_is_rejected_before_the_database_is_replaced(installation: Path, tmp_path: Path) -> None:
    settings, file = settings_of(installation), tmp_path / "backup"
    backup(settings, file, with_secret_key=False)
    before = (installation / "headwater.db").read_bytes()
    (installation / "secret-key").write_bytes(base64.b64encode(os.urandom(32)))
    with pytest.raises(SetupError, match="another secret key"):
        restore(settings, file, replace=True)
    assert (installation / "headwater.db").read_bytes() == before
    with connect_database(Endpoints(settings, DataDirectory(installation)), check_key=False):
        pass  # nothing was replaced, so the installation can start


def test_a_backup_of_a_newer_version_leaves_the_installation_as_it_is(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, file, before = settings_of(installation), tmp_path / "backup", content(installation)
    with monkeypatch.context() as patched:
        patched.setattr(backups, "_write_stores", _of_a_newer_version(backups._write_stores))
        backup(settings, file)
    with pytest.raises(SetupError, match="newer Headwater"):
        restore(settings, file, replace=True)
    assert content(installation) == before


def _of_a_newer_version(write: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda *arguments: {**write(*arguments), "schema": "r9999"}


def test_nothing_is_replaced_while_an_api_alone_uses_the_database(installation: Path, tmp_path: Path) -> None:
    settings, file = settings_of(installation), tmp_path / "backup"
    backup(settings, file)
    with connect_database(Endpoints(settings, DataDirectory(installation))) as database:
        with pytest.raises(SetupError, match="headwater api"):
            restore(settings, file, replace=True)
        database.flows.create(a_flow("f2"))
    assert "f2" in content(installation)[0]  # type: ignore[operator]  # the first part is the list of ids


def test_a_database_server_in_use_is_not_replaced(installation: Path, postgres_url: str, tmp_path: Path) -> None:
    file, target = tmp_path / "backup", DataDirectory(tmp_path / "target")
    backup(settings_of(installation), file)
    settings = Settings(data_dir=target.path, database_url=postgres_url)
    target.create()
    with connect_database(Endpoints(settings, target)) as database:
        database.flows.list(OWNER)
        with pytest.raises(SetupError, match="Headwater uses this database"):
            restore(settings, file, replace=True)
    target.require_no_unfinished_restore()


def test_nothing_is_saved_while_a_restore_is_under_way(installation: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    with (
        DataDirectory(installation).database_lock(exclusive=True),
        pytest.raises(SetupError, match=r"A restore into .* is in progress"),
    ):
        backup(settings_of(installation), file)
    assert not file.exists()


def test_nothing_is_replaced_while_a_backup_is_written(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, file, refused = settings_of(installation), tmp_path / "backup", list[str]()
    backup(settings, file)
    write = backups._write_stores

    def write_beside_a_restore(*arguments: Any) -> dict[str, Any]:
        description: dict[str, Any] = write(*arguments)
        with pytest.raises(SetupError) as error:
            restore(settings, file, replace=True)
        refused.append(error.value.detail)
        return description

    monkeypatch.setattr(backups, "_write_stores", write_beside_a_restore)
    backup(settings, tmp_path / "another")
    [detail] = refused
    assert f"{installation} is in use by another `headwater up`, or by a backup" in detail


def test_the_key_of_the_replaced_database_is_kept(installation: Path, tmp_path: Path) -> None:
    file, elsewhere = tmp_path / "backup", tmp_path / "elsewhere"
    backup(settings_of(installation), file)
    DataDirectory(elsewhere).create()
    with stores(elsewhere) as (database, _):
        database.flows.create(a_flow())
        deploy(database)
    key = (elsewhere / "secret-key").read_bytes()
    restore(settings_of(elsewhere), file, replace=True)
    [kept] = elsewhere.glob("secret-key.before-*")
    assert kept.read_bytes() == key
    assert kept.stat().st_mode & 0o777 == 0o600


def test_nothing_starts_after_an_interrupted_restore_until_it_is_repeated(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, file, before = settings_of(installation), tmp_path / "backup", content(installation)
    backup(settings, file)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(backups, "_restore_valkey", killed)
        with pytest.raises(KeyboardInterrupt):
            restore(settings, file, replace=True)
    with (
        pytest.raises(SetupError, match="was interrupted"),
        connect_database(Endpoints(settings, DataDirectory(installation))),
    ):
        pass
    with pytest.raises(SetupError, match="was interrupted"):
        backup(settings, tmp_path / "another")
    restore(settings, file, replace=True)
    assert content(installation) == before


def test_the_archive_has_the_documented_content(installation: Path, tmp_path: Path) -> None:
    backup(settings_of(installation), tmp_path / "backup")
    with zipfile.ZipFile(tmp_path / "backup") as archive:
        assert set(archive.namelist()) == {
            "manifest.json",
            "database.jsonl",
            "set-store.jsonl",
            "secret-key",
            "api-key",
        }
