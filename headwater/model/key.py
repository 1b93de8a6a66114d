"""API keys.

The text of a key is `hw_live_<key id>_<secret><checksum>`. The three parts have 12, 43 and 6 base62 characters.
"""

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

PREFIX = "hw_live_"
ID_CHARS, SECRET_CHARS, CHECKSUM_CHARS = 12, 43, 6
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_KEY = re.compile(f"{PREFIX}[0-9A-Za-z]{{{ID_CHARS}}}_[0-9A-Za-z]{{{SECRET_CHARS + CHECKSUM_CHARS}}}")

SCOPES = (
    "flow:read",
    "flow:write",
    "flow:deploy",
    "sets:write",
    "prices:read",
    "prices:write",
    "admin",
)
DEFAULT_SCOPES = tuple(scope for scope in SCOPES if scope not in ("admin", "prices:write"))
LOCAL_SCOPES = (*DEFAULT_SCOPES, "prices:write")
"""The scopes of the key that `headwater up` creates for the owner `local`."""
KEY_CACHE_S = 3.0
"""An API process accepts a valid key for this long without another check, also when the key is revoked meanwhile."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored API key.

    Attributes:
        digest: The SHA-256 of the secret. The secret can't be computed from its digest.
        last_used_at: The time of the last use, truncated to the minute.
        is_from_code: Whether a one-time code was exchanged for the key (model/sign_in.py).
    """

    id: str
    owner: str
    digest: bytes
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    is_from_code: bool = False

    def state(self, now: datetime) -> Literal["live", "revoked", "expired"]:
        """Return the state of the key at a time. Only a live key is accepted."""
        if self.revoked_at is not None:
            return "revoked"
        return "live" if self.expires_at is None or now < self.expires_at else "expired"


def base62(number: int, width: int) -> str:
    """Return `number` in base62, padded on the left to `width` characters."""
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = ALPHABET[digit] + digits
    return digits.rjust(width, ALPHABET[0])


def _checksum(text: str) -> str:
    return base62(zlib.crc32(text.encode()), CHECKSUM_CHARS)


def digest(secret: str) -> bytes:
    """Return the SHA-256 of a secret.

    A secret has 256 random bits, so a slow hash would add cost and no safety.
    """
    return hashlib.sha256(secret.encode()).digest()


def generate_key() -> tuple[str, str, bytes]:
    """Generate a key. Return its text, its id, and the digest of its secret.

    The text is shown to the user once. Only the id and the digest are stored.
    """
    key_id = "".join(secrets.choice(ALPHABET) for _ in range(ID_CHARS))
    secret = base62(int.from_bytes(secrets.token_bytes(32)), SECRET_CHARS)
    body = f"{PREFIX}{key_id}_{secret}"
    return body + _checksum(body), key_id, digest(secret)


def is_well_formed(text: str) -> bool:
    """Whether a text has the format of a key, and a correct checksum."""
    return parse_key(text) is not None


def parse_key(text: str) -> tuple[str, str] | None:
    """Return the id and the secret of a key, given its text.

    Returns None when the format or the checksum is wrong.
    """
    if not _KEY.fullmatch(text):
        return None
    body, checksum = text[:-CHECKSUM_CHARS], text[-CHECKSUM_CHARS:]
    if _checksum(body) != checksum:
        return None
    key_id, _, secret = body[len(PREFIX) :].partition("_")
    return key_id, secret
