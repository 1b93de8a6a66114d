"""Reads the secret key of an installation, which encrypts the stored credentials."""

from headwater.app.data_directory import DataDirectory
from headwater.errors import SetupError
from headwater.settings import Settings
from headwater.stores.sql.encryption import FieldCipher, decode_secret_key, load_or_create_secret_key


def secret_key(settings: Settings, data_directory: DataDirectory) -> bytes:
    """Return the secret key in the settings, or else in the data directory.

    The key is created on the first start. Raises SetupError when there is no data directory to store it in.
    """
    text = settings.secret_key.get_secret_value()
    if text:
        return decode_secret_key(text, "HEADWATER_SECRET_KEY")
    if not data_directory.path.exists():
        raise SetupError(
            f"There is no data directory {data_directory.path} with a secret key in it. Set HEADWATER_SECRET_KEY to "
            "the content of the installation's secret-key file, or point --data-dir at the directory that has it."
        )
    return load_or_create_secret_key(data_directory.secret_key)


def old_secret_keys(settings: Settings) -> list[bytes]:
    """Return the previous secret key while it is being rotated, otherwise an empty list.

    Raises SetupError when the setting is not a key.
    """
    text = settings.old_secret_key.get_secret_value()
    return [decode_secret_key(text, "HEADWATER_OLD_SECRET_KEY")] if text else []


def field_cipher(settings: Settings, data_directory: DataDirectory) -> FieldCipher:
    """Return the cipher of the stored credentials. Raises SetupError."""
    return FieldCipher(secret_key(settings, data_directory), *old_secret_keys(settings))
