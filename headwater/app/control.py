"""Composition of the control stores: the database of configurations, deployments, keys and datasets."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from headwater.app.addresses import Addresses
from headwater.app.home import Home
from headwater.brokers.embedded.files import write_private
from headwater.model.key import LOCAL_SCOPES
from headwater.model.quota import QUOTA_NAMES, QuotaDefaults, QuotaName
from headwater.services.ids import utc_now
from headwater.services.keys import Keys
from headwater.services.quotas import Limit, limits
from headwater.settings import Settings
from headwater.stores.protocols.control import AuditLog, QuotaStore
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.stores.sql.database import Database, open_database
from headwater.stores.sql.encryption import Sealer

LOCAL_OWNER = "local"


@contextmanager
def open_control(addresses: Addresses, *, check_key: bool = True) -> Iterator[Database]:
    """The database, migrated. Raises SetupError (a newer one, a wrong secret key, half a restore), StoreUnavailable.

    check_key: False to look at a database whatever its secrets were sealed with.
    """
    with _in_use(addresses):
        addresses.home.require_restored()
        sealer = Sealer(addresses.secret_key())
        quotas = quota_defaults(addresses.settings)
        database = open_database(addresses.database_url(), sealer, quotas, check_key=check_key)
        try:
            yield database
        finally:
            database.close()


def _in_use(addresses: Addresses) -> AbstractContextManager[None]:
    """Keep a restore from replacing the data directory's database meanwhile; a server's tells by itself who uses it."""
    return nullcontext() if addresses.settings.database_url.get_secret_value() else addresses.home.using_database()


@contextmanager
def control_of(settings: Settings, *, check_key: bool = True) -> Iterator[Database]:
    """The database of the installation that the settings name. Raises SetupError when there is none."""
    addresses = Addresses(settings, Home(settings.data_dir))
    if not settings.database_url.get_secret_value():
        addresses.require_home("HEADWATER_DATABASE_URL")
    with open_control(addresses, check_key=check_key) as database:
        yield database


@contextmanager
def keys_of(settings: Settings) -> Iterator[Keys]:
    """The API keys of the installation that the settings name. Raises SetupError when there is none."""
    with control_of(settings) as database:
        yield Keys(database.keys, utc_now, time.monotonic)


@contextmanager
def audit_of(settings: Settings) -> Iterator[AuditLog]:
    """The audit log of the installation that the settings name. Raises SetupError when there is none."""
    with control_of(settings) as database:
        yield database.audit


@contextmanager
def quotas_of(settings: Settings) -> Iterator[QuotaStore]:
    """The owners' quotas of the installation that the settings name. Raises SetupError when there is none."""
    with control_of(settings) as database:
        yield database.quotas


def limits_of(settings: Settings, owner: str) -> tuple[Sequence[Limit], Collection[QuotaName]]:
    """What an owner has and may have, and which quotas are its own; the settings give the other quotas.

    Raises SetupError, StoreUnavailable, SetStoreUnavailable.
    """
    addresses = Addresses(settings, Home(settings.data_dir))
    with control_of(settings) as database:
        found = limits(database.quotas, RedisSetStore(connect(addresses.redis_url())), owner)
        return found, database.quotas.overrides().get(owner, {}).keys()


def quota_defaults(settings: Settings) -> QuotaDefaults:
    """The quotas in the settings; 0 is none."""
    per_owner = {name: getattr(settings, f"quota_{name}") for name in QUOTA_NAMES}
    total = {name: getattr(settings, f"quota_total_{name}") for name in QUOTA_NAMES}
    return QuotaDefaults(_without_zeros(per_owner), _without_zeros(total))


def _without_zeros(numbers: dict[QuotaName, int]) -> dict[QuotaName, int]:
    return {name: number for name, number in numbers.items() if number}


def provide_local_key(addresses: Addresses) -> None:
    """On the first start, make a key for the owner `local` and write it to `<data dir>/api-key`."""
    home = addresses.home
    with open_control(addresses) as database:
        if not home.api_key.exists():
            key = Keys(database.keys, utc_now, time.monotonic).create(LOCAL_OWNER, LOCAL_SCOPES)
            write_private(home.api_key, key + "\n")
