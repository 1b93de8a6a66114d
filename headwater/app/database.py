"""Opens the SQL database of configurations, deployments, keys and datasets."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from headwater.app.endpoints import Endpoints
from headwater.app.secret_keys import field_cipher
from headwater.model.key import LOCAL_SCOPES
from headwater.model.quota import QUOTA_NAMES, QuotaDefaults, QuotaName
from headwater.private_files import write_private
from headwater.services.ids import utc_now
from headwater.services.keys import Keys
from headwater.services.quotas import QuotaUsage, quota_usage
from headwater.settings import Settings
from headwater.stores.protocols.audit import AuditLog
from headwater.stores.protocols.quotas import QuotaStore
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.stores.sql.database import Database, open_database

LOCAL_OWNER = "local"


@contextmanager
def connect_database(endpoints: Endpoints, *, check_key: bool = True) -> Iterator[Database]:
    """Open the database and apply its migrations.

    With `check_key=False`, the database is opened even when its secrets were encrypted with another key.

    Raises SetupError when the database can't be reached, when a newer version has migrated it, when the secret key is
    wrong, or when a restore was interrupted.
    """
    with _locked_against_restore(endpoints):
        endpoints.data_directory.require_no_unfinished_restore()
        cipher = field_cipher(endpoints.settings, endpoints.data_directory)
        quotas = quota_defaults(endpoints.settings)
        database = open_database(endpoints.database_url(), cipher, quotas, check_key=check_key)
        try:
            yield database
        finally:
            database.close()


def _locked_against_restore(endpoints: Endpoints) -> AbstractContextManager[None]:
    """Return a context that prevents a restore of the data directory's database.

    A restore into a database server is prevented by open connections instead (see stores/sql/backup.py).
    """
    return endpoints.data_directory.database_lock() if endpoints.embeds_database else nullcontext()


@contextmanager
def installation_database(settings: Settings, *, check_key: bool = True) -> Iterator[Database]:
    """Open the database of the installation in the settings.

    Raises SetupError when there is no installation.
    """
    endpoints = Endpoints.from_settings(settings)
    if endpoints.embeds_database:
        endpoints.data_directory.require_exists("HEADWATER_DATABASE_URL")
    with connect_database(endpoints, check_key=check_key) as database:
        yield database


@contextmanager
def installation_keys(settings: Settings) -> Iterator[Keys]:
    """Open the API keys of the installation in the settings.

    Raises SetupError when there is no installation.
    """
    with installation_database(settings) as database:
        yield Keys(database.keys, utc_now, time.monotonic)


@contextmanager
def installation_audit_log(settings: Settings) -> Iterator[AuditLog]:
    """Open the audit log of the installation in the settings.

    Raises SetupError when there is no installation.
    """
    with installation_database(settings) as database:
        yield database.audit


@contextmanager
def installation_quotas(settings: Settings) -> Iterator[QuotaStore]:
    """Open the owners' quotas of the installation in the settings.

    Raises SetupError when there is no installation.
    """
    with installation_database(settings) as database:
        yield database.quotas


def quota_usage_and_overrides(settings: Settings, owner: str) -> tuple[Sequence[QuotaUsage], Collection[QuotaName]]:
    """Return the usage and limits of an owner, and the names of the overridden quotas.

    The remaining limits come from the settings. Raises SetupError, DatabaseUnavailable, RedisUnavailable.
    """
    set_store = RedisSetStore(connect(Endpoints.from_settings(settings).redis_url()))
    with installation_database(settings) as database:
        usage = quota_usage(database.quotas, set_store, owner)
        return usage, database.quotas.overrides().get(owner, {}).keys()


def quota_defaults(settings: Settings) -> QuotaDefaults:
    """Return the default quotas in the settings. A setting of 0 means no limit."""
    per_owner = {name: getattr(settings, f"quota_{name}") for name in QUOTA_NAMES}
    total = {name: getattr(settings, f"quota_total_{name}") for name in QUOTA_NAMES}
    return QuotaDefaults(_without_zeros(per_owner), _without_zeros(total))


def _without_zeros(numbers: dict[QuotaName, int]) -> dict[QuotaName, int]:
    return {name: number for name, number in numbers.items() if number}


def provide_local_key(endpoints: Endpoints) -> None:
    """Create an API key for the owner `local` on the first start.

    The key is written to the file `api-key` of the data directory.
    """
    data_directory = endpoints.data_directory
    with connect_database(endpoints) as database:
        if not data_directory.api_key.exists():
            key = Keys(database.keys, utc_now, time.monotonic).create(LOCAL_OWNER, LOCAL_SCOPES)
            write_private(data_directory.api_key, key + "\n")
