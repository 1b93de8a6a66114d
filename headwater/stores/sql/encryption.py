"""Seals credentials at rest: AES-256-GCM with a key that is kept outside the database."""

import base64
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headwater.errors import SealBroken, SetupError, reason_of

KEY_BYTES = 32
NONCE_BYTES = 12


class Sealer:
    """Seals and opens single fields. Each is bound to its deployment and name: moved elsewhere it does not open."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise SetupError(f"A secret key has {KEY_BYTES} bytes; this one has {len(key)}.")
        self._cipher = AESGCM(key)

    def seal(self, text: str, deployment_id: str, field: str) -> bytes:
        """A random nonce, then ciphertext and tag."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, text.encode(), _place(deployment_id, field))

    def open(self, sealed: bytes | None, deployment_id: str, field: str) -> str:
        """The sealed text. Raises SealBroken when it was sealed with another key, or for another place."""
        if not sealed:
            raise SealBroken
        nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, ciphertext, _place(deployment_id, field)).decode()
        except (InvalidTag, ValueError) as error:
            raise SealBroken from error


def _place(deployment_id: str, field: str) -> bytes:
    return f"{deployment_id}:{field}".encode()


def load_or_create_secret_key(path: Path) -> bytes:
    """The key in `path` (base64, mode 0600), made on first use. Raises SetupError.

    Of several processes that make it at once, one wins whole and all return its key.
    """
    try:
        if not path.exists():
            _create(path)
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(
            f"The secret key {path} can't be read or written ({reason_of(error)}). Check its directory."
        ) from error
    return decode_secret_key(text, str(path))


def decode_secret_key(text: str, place: str) -> bytes:
    """The key in its base64 form. place: where it came from, for the error. Raises SetupError."""
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise SetupError(f"{place} must hold {KEY_BYTES} bytes in base64. Put back the key that was there.")
    return key


def _create(path: Path) -> None:
    """Write the whole file under another name, then link it: nobody reads half a key, and the first one stays."""
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
