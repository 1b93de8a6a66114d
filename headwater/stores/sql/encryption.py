"""Encrypts credentials at rest with AES-256-GCM.

The secret key is kept outside of the database. Each ciphertext begins with the number of its key, a digest of the key.
Ciphertexts of older versions have no number.
"""

import base64
import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headwater.errors import DecryptionFailed, SetupError, os_error_reason

KEY_BYTES = 32
NONCE_BYTES = 12
NUMBER_BYTES = 8


class Sealer:
    """Encrypts and decrypts single fields.

    The deployment id and the name of the field are associated data of the encryption. So a ciphertext that is copied to
    another row or column can't be decrypted.
    """

    def __init__(self, key: bytes, *old_keys: bytes) -> None:
        """key: The key that encrypts. old_keys: Further keys that only decrypt."""
        self._number = _number(key)
        self._ciphers = {_number(one): AESGCM(one) for one in (key, *old_keys)}

    def seal(self, text: str, deployment_id: str, field: str) -> bytes:
        """Encrypt a text.

        The result is the number of the key, a random nonce, the ciphertext and the tag.
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        encrypted = self._ciphers[self._number].encrypt(nonce, text.encode(), _associated_data(deployment_id, field))
        return self._number + nonce + encrypted

    def open(self, sealed: bytes | None, deployment_id: str, field: str) -> str:
        """Decrypt a text.

        Raises DecryptionFailed when it was encrypted with another key, or for another field.
        """
        for number, cipher in self._ciphers.items():
            content = (sealed or b"").removeprefix(number)
            nonce, ciphertext = content[:NONCE_BYTES], content[NONCE_BYTES:]
            with suppress(InvalidTag, ValueError):
                return cipher.decrypt(nonce, ciphertext, _associated_data(deployment_id, field)).decode()
        raise DecryptionFailed

    def is_current(self, sealed: bytes | None) -> bool:
        """Return whether a text has the number of the key that encrypts."""
        return (sealed or b"").startswith(self._number)


def _number(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise SetupError(f"A secret key has {KEY_BYTES} bytes; this one has {len(key)}.")
    return hashlib.blake2b(key, digest_size=NUMBER_BYTES, person=b"key number").digest()


def _associated_data(deployment_id: str, field: str) -> bytes:
    return f"{deployment_id}:{field}".encode()


def load_or_create_secret_key(path: Path) -> bytes:
    """Return the key in the file `path` (base64, mode 0600), which is created at the first use.

    Raises SetupError. If several processes create the key at once, exactly one file is kept, and all processes return
    its key.
    """
    try:
        if not path.exists():
            _create(path)
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(
            f"The secret key {path} can't be read or written ({os_error_reason(error)}). Check its directory."
        ) from error
    return decode_secret_key(text, str(path))


def decode_secret_key(text: str, source: str) -> bytes:
    """Decode a key in base64. source: Where the text is from, for the error message.

    Raises SetupError.
    """
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise SetupError(f"{source} must contain {KEY_BYTES} bytes in base64. Restore the original key.")
    return key


def _create(path: Path) -> None:
    """Create the file, unless another process did.

    The key is written under another name and then linked, so that nobody reads an incomplete key.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)
    except FileExistsError:
        return
    finally:
        draft.unlink()
