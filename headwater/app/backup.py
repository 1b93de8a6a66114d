"""Backs up and restores the database, the secret key and the data of Valkey.

Kafka's data is not part of a backup. The database is read from a snapshot, and Valkey is read after the database. So
the backup contains every set that the database references. It may also contain sets that were written during the
backup.
"""

import base64
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import headwater
from headwater.app.backup_archive import Archive, ArchiveWriter, reading, writing
from headwater.app.data_directory import DataDirectory
from headwater.app.endpoints import Endpoints
from headwater.app.secret_keys import old_secret_keys, secret_key
from headwater.controller.leadership import CONTROLLER_LEASE
from headwater.errors import SetupError
from headwater.private_files import write_private
from headwater.settings import Settings
from headwater.stores.embedded_valkey import EmbeddedValkey
from headwater.stores.redis import backup as redis_backup
from headwater.stores.redis.client import Client, connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.sql import backup as database_backup
from headwater.stores.sql.database import open_database
from headwater.stores.sql.encryption import FieldCipher, decode_secret_key

DATABASE, VALKEY, SECRET_KEY, API_KEY = "database.jsonl", "set-store.jsonl", "secret-key", "api-key"
"""The files in a backup for the database, for Valkey, and for the two keys. Existing backups have these names."""
DATA_FILES = ("tokens.json", "abis.json")
"""Files of the data directory that hold no secret and belong in every backup."""
REPLY_TIMEOUT_S = 60.0
READY_WITHIN_S = 60.0
STOP_WITHIN_S = 60.0


def backup(settings: Settings, path: Path, *, with_secret_key: bool = True) -> dict[str, Any]:
    """Write a backup of the installation, which may be running.

    Returns the manifest. Raises SetupError, Unavailable. No restore into this data directory can start during a backup,
    and no backup during such a restore.

    Args:
        settings: The settings of the installation.
        path: The file to write, which must not exist.
        with_secret_key: Whether the backup contains the secret key and the API key of the owner `local`.
    """
    endpoints = Endpoints.from_settings(settings)
    if endpoints.embeds_database:
        endpoints.data_directory.require_exists("HEADWATER_DATABASE_URL")
    if endpoints.embeds_valkey:
        endpoints.data_directory.require_exists("HEADWATER_REDIS_URL")
    path = path.expanduser().absolute()
    with (
        _locked_against_restore(endpoints.data_directory),
        _valkey_client(endpoints) as client,
        writing(path) as archive,
    ):
        key = secret_key(settings, endpoints.data_directory)
        description = _write_stores(archive, endpoints, client)
        if with_secret_key:
            archive.add(SECRET_KEY, base64.b64encode(key) + b"\n")
        for name in (API_KEY, *DATA_FILES) if with_secret_key else DATA_FILES:
            if (file := endpoints.data_directory.path / name).exists():
                archive.add(name, file.read_bytes())
        archive.close(description)
    with reading(path) as written:
        return written.manifest


@contextmanager
def _locked_against_restore(data_directory: DataDirectory) -> Iterator[None]:
    """Prevent restores into a data directory during the block.

    Raises SetupError when a restore is in progress or was interrupted.
    """
    with data_directory.database_lock() if data_directory.path.exists() else nullcontext():
        data_directory.require_no_unfinished_restore()
        yield


@contextmanager
def _valkey_client(endpoints: Endpoints, *, holds_lock: bool = False) -> Iterator[Client]:
    """Open a client of Valkey.

    The embedded Valkey runs during the block. It is started unless `headwater up` runs it. Raises SetupError when
    another backup of the same data directory is in progress, because the other backup may run Valkey.

    Args:
        endpoints: The endpoints of the installation.
        holds_lock: Whether this process already holds the lock of `headwater up`, which runs the embedded Valkey.
    """
    with ExitStack() as stack:
        if endpoints.embeds_valkey and (holds_lock or _acquire_locks(endpoints.data_directory, stack)):
            stack.enter_context(_running(endpoints.embedded_valkey()))
        yield stack.enter_context(closing(connect(endpoints.redis_url(), reply_timeout_s=REPLY_TIMEOUT_S)))


def _acquire_locks(data_directory: DataDirectory, stack: ExitStack) -> bool:
    """Acquire the locks of `headwater backup` and `headwater up` until the stack is closed.

    Raises SetupError when another backup holds its lock. Returns False when `headwater up` holds the other lock.
    """
    stack.enter_context(data_directory.locked("backup"))
    try:
        stack.enter_context(data_directory.locked("up"))
    except SetupError:
        return False
    return True


@contextmanager
def _running(valkey: EmbeddedValkey) -> Iterator[None]:
    """Run the embedded Valkey during the block."""
    child = valkey.start()
    try:
        valkey.wait_ready(child, READY_WITHIN_S)
        yield
    finally:
        child.stop(STOP_WITHIN_S)


def _write_stores(archive: ArchiveWriter, endpoints: Endpoints, client: Client) -> dict[str, Any]:
    """Add the database and the data of Valkey to the archive.

    Returns the manifest's description.
    """
    url = endpoints.database_url()
    with database_backup.snapshot(url) as snapshot:
        description = {
            "headwater": headwater.__version__,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "schema": snapshot.revision,
            "database": url.partition(":")[0],
        }
        archive.add_lines(DATABASE, snapshot.rows, lambda row: str(row[0]))
    archive.add_lines(VALKEY, redis_backup.dump(client), _line_kind)
    return description


def _line_kind(entry: redis_backup.Entry) -> str:
    """Return the name under which the manifest counts a line.

    A set has a line of the kind `sets`, and then lines of the kind `pages`, each with a part of its values. A set that
    is replaced during the dump begins again, with a further line `sets`.
    """
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
    file, its secret key and the files of Valkey are renamed and kept. After an interrupted restore, no process that
    opens the database starts until a restore has succeeded.
    """
    endpoints = Endpoints.from_settings(settings)
    data_directory = endpoints.data_directory
    with reading(path) as archive:
        archive.verify()
        data_directory.create()
        with (
            data_directory.locked("up"),
            data_directory.locked("controller"),
            data_directory.database_lock(exclusive=True),
        ):
            _require_unused_database(endpoints)
            if not replace:
                _require_empty(endpoints)
            cipher = FieldCipher(_secret_key_of(archive, endpoints), *old_secret_keys(settings))
            database_backup.require_known(str(archive.manifest["schema"]))
            stamp = f"before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            replace_database = _prepare_database(endpoints, archive, cipher, stamp)
            with data_directory.restoring():
                replace_database()
                _restore_valkey(endpoints, archive, stamp)
                _restore_files(endpoints, archive, stamp)
        return archive.manifest


def _secret_key_of(archive: Archive, endpoints: Endpoints) -> bytes:
    """Return the secret key in the backup, or else the secret key of the installation.

    Raises SetupError when there is no key, and when the key in the settings is not the key in the backup.
    """
    setting = endpoints.settings.secret_key.get_secret_value()
    if not archive.has(SECRET_KEY):
        if not setting and not endpoints.data_directory.secret_key.exists():
            raise SetupError(
                "The backup was made without the secret key. Put the installation's secret-key file into "
                f"{endpoints.data_directory.path}, or set HEADWATER_SECRET_KEY, and restore again."
            )
        return secret_key(endpoints.settings, endpoints.data_directory)
    key = decode_secret_key(archive.read(SECRET_KEY).decode().strip(), SECRET_KEY)
    if setting and decode_secret_key(setting, "HEADWATER_SECRET_KEY") != key:
        raise SetupError("HEADWATER_SECRET_KEY is not the key of this backup. Unset it, or restore another backup.")
    return key


def _require_unused_database(endpoints: Endpoints) -> None:
    """Raise SetupError when other processes use the database.

    They do when a controller holds the lease, or when another process is connected to the database server.

    On this machine, the locks of the data directory already exclude `headwater up` and the controller, and the lock of
    a database file excludes all other processes that use the file.
    """
    if not endpoints.embeds_database or endpoints.data_directory.database.exists():
        database_backup.require_unused(endpoints.database_url(), CONTROLLER_LEASE)


def _require_empty(endpoints: Endpoints) -> None:
    """Raise SetupError when the installation has data that a restore would replace."""
    if endpoints.embeds_database:
        has_database = endpoints.data_directory.database.exists()
    else:
        has_database = not database_backup.is_empty(endpoints.database_url())
    if has_database:
        raise SetupError("There is a database already. `headwater restore --replace` puts the backup in its place.")
    if endpoints.embeds_valkey:
        if any((endpoints.data_directory.path / "valkey").glob("appendonly*")):
            raise SetupError(
                "There is data of Valkey already. `headwater restore --replace` puts the backup in its place."
            )
        return
    client = connect(endpoints.redis_url(), reply_timeout_s=REPLY_TIMEOUT_S)
    if not redis_backup.is_empty(client):
        raise SetupError("Valkey or Redis holds data already. `headwater restore --replace` replaces it.")


def _prepare_database(endpoints: Endpoints, archive: Archive, cipher: FieldCipher, stamp: str) -> Callable[[], None]:
    """Return a function that replaces the database by the backup.

    A database file is written before this function returns, so that an error while it is written changes nothing. The
    data of a database server are replaced when the returned function is called.
    """
    if not endpoints.embeds_database:
        return partial(_load, endpoints.database_url(), archive, cipher)
    draft = _draft_database(endpoints, archive, cipher)
    return partial(_place_database, endpoints, draft, stamp)


def _draft_database(endpoints: Endpoints, archive: Archive, cipher: FieldCipher) -> Path:
    """Write the backup into a new database file.

    The current database file is not changed, so an error loses nothing. The restore frees all leases of the backup.
    Fencing tokens that are issued after it must also be higher than the tokens in the current file.
    """
    final = endpoints.data_directory.database
    draft = final.with_name(f"{final.name}.restoring")
    _remove_database_files(draft)
    last_fencing_token = database_backup.highest_fencing_token(endpoints.database_url()) if final.exists() else 0
    _load(f"sqlite:///{draft}", archive, cipher, last_fencing_token)
    return draft


def _load(url: str, archive: Archive, cipher: FieldCipher, min_fencing_token: int = 0) -> None:
    """Write the rows of a backup into a database, and check that the secret key fits."""
    rows = ((str(name), values) for name, values in archive.lines(DATABASE))
    _check_counts(database_backup.load(url, str(archive.manifest["schema"]), rows, min_fencing_token), archive)
    open_database(url, cipher).close()


def _check_counts(written: Counter[str], archive: Archive) -> None:
    expected = archive.manifest["members"][DATABASE]["lines"]
    if dict(written) != expected:
        raise SetupError(
            f"The restored rows by table are {dict(written)}, but the backup has {expected}. Restore again, or use "
            "another backup."
        )


def _place_database(endpoints: Endpoints, draft: Path, stamp: str) -> None:
    """Replace the current database file by the new one. The current file is renamed and kept."""
    final = endpoints.data_directory.database
    for suffix in ("", "-wal", "-shm"):
        if (old := final.with_name(final.name + suffix)).exists():
            old.rename(final.with_name(f"{final.name}.{stamp}{suffix}"))
    draft.rename(final)
    _remove_database_files(draft)  # its -wal and -shm may remain


def _remove_database_files(database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def _restore_valkey(endpoints: Endpoints, archive: Archive, stamp: str) -> None:
    if endpoints.embeds_valkey and (old := endpoints.data_directory.path / "valkey").exists():
        old.rename(old.with_name(f"valkey.{stamp}"))
    with _valkey_client(endpoints, holds_lock=True) as client:
        redis_backup.clear(client)
        loaded = redis_backup.load(client, archive.lines(VALKEY))
        _write_dataset_names(archive, client)
    expected = archive.manifest["members"][VALKEY]["lines"]
    if (loaded.begun_sets, loaded.keys + loaded.unreadable) != (expected.get("sets", 0), expected.get("keys", 0)):
        raise SetupError(
            f"{loaded.begun_sets} sets and {loaded.keys + loaded.unreadable} keys were read from the backup for Valkey "
            f"or Redis, but its manifest names {expected.get('sets', 0)} sets and {expected.get('keys', 0)} keys. "
            "Restore again, or use another backup."
        )
    archive.manifest["skipped_entries"] = loaded.unreadable


def _write_dataset_names(archive: Archive, client: Client) -> None:
    """Write the names of the datasets in the database.

    A server that is older than the server of the backup could not restore them.
    """
    names = RedisDatasetNames(client)
    for table, row in archive.lines(DATABASE):
        if table == "datasets" and row["state"] == "live":
            names.put(row["owner"], row["name"], row["id"])


def _restore_files(endpoints: Endpoints, archive: Archive, stamp: str) -> None:
    """Write the files of the backup.

    An existing file with another content is renamed and kept: without the previous secret key, nobody could read the
    database that the restore has replaced.
    """
    for name in (API_KEY, *DATA_FILES, SECRET_KEY):
        if not archive.has(name) or (name == SECRET_KEY and endpoints.settings.secret_key.get_secret_value()):
            continue
        file, content = endpoints.data_directory.path / name, archive.read(name)
        if file.exists() and file.read_bytes() != content:
            file.rename(file.with_name(f"{name}.{stamp}"))
        write_private(file, content.decode())
