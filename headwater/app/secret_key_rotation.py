"""Implements `headwater keys rotate-secret`."""

from typing import Final

from headwater.app.data_directory import DataDirectory
from headwater.app.database import installation_database
from headwater.app.secret_keys import old_secret_keys, secret_key
from headwater.errors import SetupError
from headwater.settings import Settings
from headwater.stores.sql.credential_rows import RotationResult

_MANUAL: Final = 'docs/backup_and_upgrade.md has the steps under "The secret key"'


def rotate_secret_key(settings: Settings) -> RotationResult:
    """Encrypt all stored credentials again, with the secret key in the settings.

    Raises DatabaseUnavailable. Raises SetupError when there is no old key, and when the database was encrypted with
    neither of the keys.
    """
    old_keys = old_secret_keys(settings)
    if not old_keys:
        raise SetupError(
            "There is no old secret key to replace. Set HEADWATER_OLD_SECRET_KEY to the current key, and "
            f"HEADWATER_SECRET_KEY to the new one: {_MANUAL}."
        )
    with installation_database(settings) as database:
        if secret_key(settings, DataDirectory(settings.data_dir)) in old_keys:
            raise SetupError(f"The secret key and the old secret key are the same. Make a new key: {_MANUAL}.")
        return database.rotate_secret_key()
