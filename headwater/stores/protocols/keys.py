"""The protocol of the store of API keys."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headwater.model.key import ApiKey


class KeyStore(Protocol):
    """API keys."""

    def create(self, key: ApiKey) -> None:
        """Store a new key. Raises Conflict when a key has this id already."""

    def find(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, also when it is revoked."""

    def list(self) -> Sequence[ApiKey]:
        """Return all keys, newest first."""

    def revoke(self, key_id: str, at: datetime) -> None:
        """Revoke a key. A key that is revoked twice keeps the first time. Raises NotFound."""

    def record_use(self, at: dict[str, datetime]) -> None:
        """Write when keys were last used, by key id."""
