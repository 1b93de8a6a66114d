"""API keys: check, make, list, revoke."""

import hmac
import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from headwater.errors import InvalidInput, Unauthenticated
from headwater.model.key import DEFAULT_SCOPES, SCOPES, ApiKey, digest, mint, parse
from headwater.services.ids import Clock
from headwater.stores.base import KeyStore

CACHE_S = 3.0
MAX_OWNER_CHARS = 200
_NOBODY = digest("")


class Keys:
    """Thread-safe. A key that was found good is trusted for CACHE_S; nothing is remembered of bad ones.

    monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, store: KeyStore, now: Clock, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._monotonic = monotonic
        self._cache: dict[str, tuple[float, ApiKey]] = {}
        self._used: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def authenticate_cached(self, text: str) -> ApiKey | None:
        """The key, when it was found good within CACHE_S. Never blocks, never raises."""
        parsed = parse(text)
        if parsed is None:
            return None
        key_id, secret = parsed
        checked_at, key = self._cache.get(key_id, (0.0, None))
        if key is None or self._monotonic() - checked_at > CACHE_S:
            return None
        return self._accept(key, secret)

    def was_valid(self, text: str) -> bool:
        """Whether this process found this key good at its last check. Never blocks."""
        parsed = parse(text)
        if parsed is None:
            return False
        key_id, secret = parsed
        _, known = self._cache.get(key_id, (0.0, None))
        return known is not None and hmac.compare_digest(digest(secret), known.digest)

    def authenticate(self, text: str) -> ApiKey:
        """The key. Blocks on the store. Raises Unauthenticated, StoreUnavailable when it could not be checked."""
        parsed = parse(text)
        if parsed is None:
            raise Unauthenticated
        key_id, secret = parsed
        checked_at = self._monotonic()
        found = self._store.find(key_id)
        key = self._accept(found, secret)
        if key is None:
            if found is None or found.state(self._now()) != "live":  # a wrong secret says nothing of the key
                self._cache.pop(key_id, None)
            raise Unauthenticated
        self._cache[key_id] = (checked_at, key)
        return key

    def _accept(self, key: ApiKey | None, secret: str) -> ApiKey | None:
        """Compares with something in every case, so that the time taken does not tell which ids exist."""
        same = hmac.compare_digest(digest(secret), key.digest if key else _NOBODY)
        if key is None or not same or key.state(self._now()) != "live":
            return None
        with self._lock:
            self._used[key.id] = self._now().replace(second=0, microsecond=0)
        return key

    def write_last_use(self) -> None:
        """Write the last use of the keys seen since the last call. Blocks; raises StoreUnavailable, losing nothing."""
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
        """A new key's text; it can't be read again.

        Raises InvalidInput for an unknown scope, no real owner, and a key that would never be good.
        """
        if not 0 < len(owner.strip()) == len(owner) <= MAX_OWNER_CHARS:
            text = f"The owner's name has 1 to {MAX_OWNER_CHARS} characters, with no space at its ends."
            raise InvalidInput(text)
        unknown = [s for s in scopes if s not in SCOPES]
        if unknown:
            raise InvalidInput(f"No such scope: {', '.join(unknown)}. Choose from {', '.join(SCOPES)}.")
        if expires_at is not None and expires_at <= self._now():
            raise InvalidInput(f"The key would have expired already, at {expires_at:%Y-%m-%dT%H:%M:%SZ}.")
        text, key_id, secret_digest = mint()
        self._store.create(ApiKey(key_id, owner, secret_digest, tuple(scopes), self._now(), expires_at))
        return text

    def list(self) -> Sequence[ApiKey]:
        """All keys, newest first."""
        return self._store.list()

    def revoke(self, key_id: str) -> None:
        """Revoke a key; other processes refuse it within CACHE_S. Raises NotFound."""
        self._store.revoke(key_id, self._now())
        self._cache.pop(key_id, None)
