"""Creates, checks, lists and revokes API keys."""

import hmac
import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from headwater.errors import InvalidInput, Unauthenticated
from headwater.model.key import DEFAULT_SCOPES, KEY_CACHE_S, SCOPES, ApiKey, digest, generate_key, parse_key
from headwater.services.ids import Now
from headwater.stores.protocols.keys import KeyStore

MAX_OWNER_CHARS = 200
_NO_KEY_DIGEST = digest("")


class Keys:
    """Creates, checks, lists and revokes API keys. Thread-safe.

    A valid key is cached for KEY_CACHE_S seconds; invalid keys are not cached.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, store: KeyStore, now: Now, clock: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._clock = clock
        self._cache: dict[str, tuple[float, ApiKey]] = {}
        self._used: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def authenticate_cached(self, text: str) -> ApiKey | None:
        """Return the key when a check within the last KEY_CACHE_S seconds found it valid.

        Never blocks, never raises.
        """
        parsed = parse_key(text)
        if parsed is None:
            return None
        key_id, secret = parsed
        checked_at, key = self._cache.get(key_id, (0.0, None))
        if key is None or self._clock() - checked_at > KEY_CACHE_S:
            return None
        return self._accept(key, secret)

    def was_valid(self, text: str) -> bool:
        """Whether the last check of this key in this process found it valid. Never blocks."""
        parsed = parse_key(text)
        if parsed is None:
            return False
        key_id, secret = parsed
        _, cached = self._cache.get(key_id, (0.0, None))
        return cached is not None and hmac.compare_digest(digest(secret), cached.digest)

    def authenticate(self, text: str) -> ApiKey:
        """Check a key in the database, and cache it when it is valid. May block.

        Raises Unauthenticated for an invalid key, and DatabaseUnavailable when the key could not be checked.
        """
        parsed = parse_key(text)
        if parsed is None:
            raise Unauthenticated
        key_id, secret = parsed
        checked_at = self._clock()
        stored = self._store.find(key_id)
        key = self._accept(stored, secret)
        if key is None:
            # A wrong secret does not mean that the cached key is invalid.
            if stored is None or stored.state(self._now()) != "live":
                self._cache.pop(key_id, None)
            raise Unauthenticated
        self._cache[key_id] = (checked_at, key)
        return key

    def _accept(self, key: ApiKey | None, secret: str) -> ApiKey | None:
        """Check the secret in constant time, and record the use of the key when it is valid.

        Returns None when the key is invalid. A comparison is made even for an unknown id, so that the time does not
        reveal which ids exist.
        """
        has_secret = hmac.compare_digest(digest(secret), key.digest if key else _NO_KEY_DIGEST)
        if key is None or not has_secret or key.state(self._now()) != "live":
            return None
        with self._lock:
            self._used[key.id] = self._now().replace(second=0, microsecond=0)
        return key

    def is_live(self, key_id: str) -> bool:
        """Whether a key is neither revoked nor expired. May block. Raises DatabaseUnavailable."""
        key = self._store.find(key_id)
        return key is not None and key.state(self._now()) == "live"

    def write_last_use(self) -> None:
        """Write the last use of the keys that were used since the last call. May block.

        Raises DatabaseUnavailable. The next call then also writes the uses that this call could not write.
        """
        with self._lock:
            used, self._used = self._used, {}
        if not used:
            return
        try:
            self._store.record_use(used)
        except Exception:
            with self._lock:
                self._used = used | self._used
            raise

    def create(self, owner: str, scopes: Sequence[str] = DEFAULT_SCOPES, expires_at: datetime | None = None) -> str:
        """Create a key and return its text, which is not stored and can't be shown again.

        Raises InvalidInput for an unknown scope, an invalid owner name, or an expiry in the past.
        """
        if not 0 < len(owner.strip()) == len(owner) <= MAX_OWNER_CHARS:
            text = f"The owner's name must have 1 to {MAX_OWNER_CHARS} characters, without space at its ends."
            raise InvalidInput(text)
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown:
            raise InvalidInput(f"No such scope: {', '.join(unknown)}. Choose from {', '.join(SCOPES)}.")
        if expires_at is not None and expires_at <= self._now():
            raise InvalidInput(f"The expiry {expires_at:%Y-%m-%dT%H:%M:%SZ} is in the past. Choose a later one.")
        text, key_id, secret_digest = generate_key()
        self._store.create(ApiKey(key_id, owner, secret_digest, tuple(scopes), self._now(), expires_at))
        return text

    def list(self) -> Sequence[ApiKey]:
        """Return all keys, newest first."""
        return self._store.list()

    def revoke(self, key_id: str) -> None:
        """Revoke a key. Raises NotFound.

        Other API processes refuse the key after KEY_CACHE_S seconds at the latest.
        """
        self._store.revoke(key_id, self._now())
        self._cache.pop(key_id, None)
