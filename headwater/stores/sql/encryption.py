"""Encrypts credentials at rest with AES-256-GCM.

The secret key is kept outside of the database. Each stored value begins with a key id, a digest of the key that
encrypted it. Values that older versions encrypted have no key id.
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
KEY_ID_BYTES = 8


class FieldCipher:
    """Encrypts and decrypts single fields.

    The deployment id and the name of the field are associated data of the encryption. So a ciphertext that is copied to
    another row or column can't be decrypted.
    """

    def __init__(self, key: bytes, *old_keys: bytes) -> None:
        """key: The key that encrypts. old_keys: Further keys that only decrypt."""
        self._key_id = _key_id(key)
        self._ciphers = {_key_id(known_key): AESGCM(known_key) for known_key in (key, *old_keys)}

    def encrypt(self, text: str, deployment_id: str, field: str) -> bytes:
        """Encrypt a text.

        The result is the key id, a random nonce, the ciphertext and the tag.
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = self._ciphers[self._key_id].encrypt(nonce, text.encode(), _associated_data(deployment_id, field))
        return self._key_id + nonce + ciphertext

    def decrypt(self, stored: bytes | None, deployment_id: str, field: str) -> str:
        """Decrypt a stored value.

        Raises DecryptionFailed when it was encrypted with another key, or for another field.
        """
        for key_id, cipher in self._ciphers.items():
            content = (stored or b"").removeprefix(key_id)
            nonce, ciphertext = content[:NONCE_BYTES], content[NONCE_BYTES:]
            with suppress(InvalidTag, ValueError):
                return cipher.decrypt(nonce, ciphertext, _associated_data(deployment_id, field)).decode()
        raise DecryptionFailed

    def is_current(self, stored: bytes | None) -> bool:
        """Return whether a stored value begins with the id of the key that encrypts."""
        return (stored or b"").startswith(self._key_id)


def _key_id(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise SetupError(f"A secret key has {KEY_BYTES} bytes; this one has {len(key)}.")
    return hashlib.blake2b(key, digest_size=KEY_ID_BYTES, person=b"key number").digest()


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
