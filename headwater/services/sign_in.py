"""Exchanges one-time codes for API keys that end after some hours."""

from collections.abc import Sequence
from datetime import datetime

from headwater.errors import Conflict, InvalidSignInCode
from headwater.model.key import ApiKey, digest, generate_key
from headwater.model.sign_in import CODE_TTL, KEY_TTL, generate_code
from headwater.services.ids import Now
from headwater.services.keys import Keys
from headwater.stores.protocols.sign_in import SignInStore


class SignIns:
    """Creates one-time codes, exchanges each once, and revokes the resulting keys.

    Thread-safe.
    """

    def __init__(self, store: SignInStore, keys: Keys, now: Now) -> None:
        self._store = store
        self._keys = keys
        self._now = now

    def create_code(self, source: ApiKey) -> tuple[str, datetime]:
        """Create a code that gives a key with the owner and the scopes of `source`.

        Returns the code, which is not stored, and the time at which it expires.
        """
        code, code_digest = generate_code()
        expires_at = self._now() + CODE_TTL
        self._store.add_code(code_digest, source, expires_at)
        return code, expires_at

    def sign_in(self, code: str) -> tuple[str, ApiKey]:
        """Exchange a code for a new key; return the text of the key, and the key.

        Raises InvalidSignInCode, alike for an unknown, used and expired code. Raises DatabaseUnavailable.
        """
        now = self._now()
        text, key_id, secret_digest = generate_key()

        def make_key(owner: str, scopes: Sequence[str]) -> ApiKey:
            return ApiKey(key_id, owner, secret_digest, tuple(scopes), now, now + KEY_TTL, is_from_code=True)

        key = self._store.exchange(digest(code), now, make_key)
        if key is None:
            raise InvalidSignInCode
        return text, key

    def sign_out(self, key: ApiKey) -> None:
        """Revoke a key that was created with a sign-in code.

        Raises Conflict for any other key, and DatabaseUnavailable.
        """
        if not key.is_from_code:
            raise Conflict(
                "This API key does not come from a sign-in code, so it stays valid. Delete your copy of it, or "
                f"revoke it for all its users with `headwater keys revoke {key.id}`."
            )
        self._keys.revoke(key.id)
