"""Backs up and restores the database, the secret key and the set store.

Kafka's data is not part of a backup. The database is read from a snapshot, and the set store after that. So the backup
contains every set that the database references; it may also contain writes that were made during the backup.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import headwater
from headwater.app.backup_archive import Archive, ArchiveWriter, reading, writing
from headwater.app.data_directory import DataDirectory
from headwater.app.endpoints import Endpoints
from headwater.controller.leadership import CONTROLLER_LEASE
from headwater.errors import SetupError
from headwater.private_files import write_private
from headwater.settings import Settings
from headwater.stores.redis import backup as set_backup
from headwater.stores.redis.client import Client, connect
from headwater.stores.sql import backup as database_backup
from headwater.stores.sql.database import open_database
from headwater.stores.sql.encryption import FieldCipher, decode_secret_key

DATABASE, SET_STORE, SECRET_KEY = "database.jsonl", "set-store.jsonl", "secret-key"
DATA_FILES = ("api-key", "tokens.json", "abis.json")
"""Further files of the data directory that belong into a backup."""
REPLY_TIMEOUT_S = 60.0
READY_WITHIN_S = 60.0


def backup(settings: Settings, path: Path, *, with_key: bool = True) -> dict[str, Any]:
    """Write a backup of the installation, which may be running.

    Returns the manifest. Raises SetupError, Unavailable. The data directory is locked meanwhile: no restore can start
    during a backup, and no backup during a restore.
    """
    endpoints = _endpoints(settings)
    path = path.expanduser().absolute()
    with _without_restore(endpoints.data_directory), _set_store(endpoints) as client, writing(path) as archive:
        key = endpoints.secret_key()
        description = _write(archive, endpoints, client)
        if with_key:
            archive.add(SECRET_KEY, _key_text(key))
        for name in DATA_FILES:
            if (file := endpoints.data_directory.path / name).exists():
                archive.add(name, file.read_bytes())
        archive.close(description)
    with reading(path) as written:
        return written.manifest


def _write(archive: ArchiveWriter, endpoints: Endpoints, client: Client) -> dict[str, Any]:
    url = endpoints.database_url()
    with database_backup.snapshot(url) as snapshot:
        description = {
            "headwater": headwater.__version__,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "schema": snapshot.revision,
            "database": url.partition(":")[0],
        }
        archive.add_lines(DATABASE, snapshot.rows, lambda row: str(row[0]))
    archive.add_lines(SET_STORE, set_backup.dump(client), _line_kind)
    return description


def _line_kind(entry: set_backup.Entry) -> str:
    if "key" in entry:
        return "keys"
    return "sets" if entry.get("begin") else "pages"


def verify(path: Path) -> dict[str, Any]:
    """Read and check a whole backup.

    Returns its manifest. Raises SetupError when the backup is damaged.
    """
    with reading(path) as archive:
        archive.verify()
        return archive.manifest


def restore(settings: Settings, path: Path, *, replace: bool = False) -> dict[str, Any]:
    """Replace the data of an installation by a backup.

    Returns the manifest. Raises SetupError, Unavailable. With `replace`, the installation may hold data. Its database
    file, secret key and set store are renamed and kept. After an interrupted restore, no process starts on the data
    directory until a restore has succeeded.
    """
    endpoints = Endpoints(settings, DataDirectory(settings.data_dir))
    data_directory = endpoints.data_directory
    with reading(path) as archive:
        archive.verify()
        data_directory.create()
        with (
            data_directory.locked("up"),
            data_directory.locked("controller"),
            data_directory.database_lock(exclusive=True),
        ):
            _require_stopped(endpoints)
            if not replace:
                _require_empty(endpoints)
            cipher = FieldCipher(_key(endpoints, archive), *endpoints.old_secret_keys())
            database_backup.require_known(str(archive.manifest["schema"]))
            draft = None if _has_external_database(endpoints) else _draft_database(endpoints, archive, cipher)
            with data_directory.restoring():
                stamp = f"before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
                if draft is None:
                    _load_database(endpoints, archive, cipher)
                else:
                    _place_database(endpoints, draft, stamp)
                _restore_set_store(endpoints, archive, stamp)
                _restore_files(endpoints, archive, stamp)
        return archive.manifest


def _endpoints(settings: Settings) -> Endpoints:
    endpoints = Endpoints(settings, DataDirectory(settings.data_dir))
    if not settings.database_url.get_secret_value():
        endpoints.require_data_directory("HEADWATER_DATABASE_URL")
    return endpoints


@contextmanager
def _without_restore(data_directory: DataDirectory) -> Iterator[None]:
    """Lock a data directory against restores.

    Raises SetupError when a restore is in progress or was interrupted.
    """
    with data_directory.database_lock() if data_directory.path.exists() else nullcontext():
        data_directory.require_restored()
        yield


def _key_text(key: bytes) -> bytes:
    return base64.b64encode(key) + b"\n"


def _key(endpoints: Endpoints, archive: Archive) -> bytes:
    """Return the secret key of the backup, or else that of the installation.

    Raises SetupError.
    """
    given = endpoints.settings.secret_key.get_secret_value()
    if not archive.has(SECRET_KEY):
        if not given and not endpoints.data_directory.secret_key.exists():
            raise SetupError(
                "The backup was made without the secret key. Put the installation's secret-key file into "
                f"{endpoints.data_directory.path}, or set HEADWATER_SECRET_KEY, and restore again."
            )
        return endpoints.secret_key()
    key = decode_secret_key(archive.read(SECRET_KEY).decode().strip(), SECRET_KEY)
    if given and decode_secret_key(given, "HEADWATER_SECRET_KEY") != key:
        raise SetupError("HEADWATER_SECRET_KEY is not the key of this backup. Unset it, or restore another backup.")
    return key


def _has_external_database(endpoints: Endpoints) -> bool:
    return bool(endpoints.settings.database_url.get_secret_value())


def _require_stopped(endpoints: Endpoints) -> None:
    """Raise SetupError when a controller leads.

    Processes on this machine are already excluded by the locks of the data directory.
    """
    if not _has_external_database(endpoints) and not endpoints.data_directory.database.exists():
        return
    url = endpoints.database_url()
    if not database_backup.is_empty(url) and database_backup.has_leader(url, CONTROLLER_LEASE):
        raise SetupError(
            "A controller holds the lease of this database. Stop all processes of Headwater. If a controller was "
            "killed, wait 10 s until its lease has expired."
        )


def _require_empty(endpoints: Endpoints) -> None:
    """Raise SetupError when the installation has data that a restore would replace."""
    is_external = _has_external_database(endpoints)
    if (is_external and not database_backup.is_empty(endpoints.database_url())) or (
        not is_external and endpoints.data_directory.database.exists()
    ):
        raise SetupError("There is a database already. `headwater restore --replace` puts the backup in its place.")
    if endpoints.embeds_valkey:
        if any((endpoints.data_directory.path / "valkey").glob("appendonly*")):
            raise SetupError(
                "There is a set store already. `headwater restore --replace` puts the backup in its place."
            )
        return
    client = connect(endpoints.redis_url(), reply_timeout_s=REPLY_TIMEOUT_S)
    if not set_backup.is_empty(client):
        raise SetupError("The set store holds data already. `headwater restore --replace` replaces it.")


def _load(url: str, archive: Archive, cipher: FieldCipher, fencing: int = 0) -> None:
    """Write the rows of a backup into a database, and check that the secret key fits."""
    rows = ((str(name), values) for name, values in archive.lines(DATABASE))
    _check_counts(database_backup.load(url, str(archive.manifest["schema"]), rows, fencing), archive)
    open_database(url, cipher).close()


def _load_database(endpoints: Endpoints, archive: Archive, cipher: FieldCipher) -> None:
    """Load the backup into a database server, in place of its data."""
    _load(endpoints.database_url(), archive, cipher)


def _draft_database(endpoints: Endpoints, archive: Archive, cipher: FieldCipher) -> Path:
    """Write the backup into a new database file.

    The current one is not changed, so an error loses nothing.
    """
    final = endpoints.data_directory.database
    draft = final.with_name(f"{final.name}.restoring")
    _remove(draft)
    fencing = database_backup.highest_fencing_token(endpoints.database_url()) if final.exists() else 0
    _load(f"sqlite:///{draft}", archive, cipher, fencing)
    return draft


def _place_database(endpoints: Endpoints, draft: Path, stamp: str) -> None:
    """Replace the current database file by the new one. The current one is renamed and kept."""
    final = endpoints.data_directory.database
    for suffix in ("", "-wal", "-shm"):
        if (old := final.with_name(final.name + suffix)).exists():
            old.rename(final.with_name(f"{final.name}.{stamp}{suffix}"))
    draft.rename(final)
    _remove(draft)


def _remove(database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def _check_counts(written: Counter[str], archive: Archive) -> None:
    expected = archive.manifest["members"][DATABASE]["lines"]
    if dict(written) != expected:
        raise SetupError(
            f"Only {dict(written)} of {expected} rows were restored into the database. Restore again, or use another "
            "backup."
        )


def _restore_set_store(endpoints: Endpoints, archive: Archive, stamp: str) -> None:
    if endpoints.embeds_valkey and (old := endpoints.data_directory.path / "valkey").exists():
        old.rename(old.with_name(f"valkey.{stamp}"))
    with _set_store(endpoints, locked=True) as client:
        set_backup.clear(client)
        loaded = set_backup.load(client, _entries(archive))
    expected = archive.manifest["members"][SET_STORE]["lines"]
    if (loaded.sets, loaded.keys + loaded.unreadable) != (expected.get("sets", 0), expected.get("keys", 0)):
        raise SetupError(
            f"Only {loaded} of {expected} entries were restored into the set store. Restore again, or use another "
            "backup."
        )
    archive.manifest["unreadable_keys"] = loaded.unreadable


def _entries(archive: Archive) -> Iterable[set_backup.Entry]:
    return archive.lines(SET_STORE)


def _restore_files(endpoints: Endpoints, archive: Archive, stamp: str) -> None:
    """Write the files of the backup.

    The database that was replaced needs the key that encrypted it.
    """
    for name in (*DATA_FILES, SECRET_KEY):
        if not archive.has(name) or (name == SECRET_KEY and endpoints.settings.secret_key.get_secret_value()):
            continue
        file, content = endpoints.data_directory.path / name, archive.read(name)
        if file.exists() and file.read_bytes() != content:
            file.rename(file.with_name(f"{name}.{stamp}"))
        write_private(file, content.decode())


@contextmanager
def _set_store(endpoints: Endpoints, *, locked: bool = False) -> Iterator[Client]:
    """Open a client of the set store.

    The embedded set store is started when `headwater up` does not run. `locked` says whether this process holds the
    lock of `up`, so that no other process can run the embedded set store.
    """
    if not endpoints.embeds_valkey or (not locked and endpoints.data_directory.is_locked("up")):
        client = connect(endpoints.redis_url(), reply_timeout_s=REPLY_TIMEOUT_S)
        try:
            yield client
        finally:
            client.close()
        return
    valkey = endpoints.embedded_valkey()
    child = valkey.start()
    try:
        valkey.wait_ready(child, READY_WITHIN_S)
        client = connect(valkey.url, reply_timeout_s=REPLY_TIMEOUT_S)
        yield client
        client.close()
    finally:
        child.stop(READY_WITHIN_S)
