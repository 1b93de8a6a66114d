"""API keys in memory."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from headwater.model.key import ApiKey
from headwater.stores.memory.audit import MemoryAudit
from headwater.stores.memory.order import newest_first
from headwater.stores.sql import changes, store_errors


class MemoryKeys:
    """KeyStore in memory."""

    def __init__(self, audit: MemoryAudit) -> None:
        self._audit = audit
        self._lock = threading.Lock()
        self._keys: dict[str, ApiKey] = {}

    def create(self, key: ApiKey) -> None:
        with self._lock:
            if key.id in self._keys:
                raise store_errors.key_exists(key.id)
            self._keys[key.id] = key
            self._audit.record(changes.key_created(key))

    def find(self, key_id: str) -> ApiKey | None:
        with self._lock:
            return self._keys.get(key_id)

    def list(self) -> Sequence[ApiKey]:
        with self._lock:
            return newest_first(list(self._keys.values()))

    def revoke(self, key_id: str, at: datetime) -> None:
        with self._lock:
            key = self._keys.get(key_id)
            if key is None:
                raise store_errors.no_key(key_id)
            if key.revoked_at is None:
                self._keys[key_id] = replace(key, revoked_at=at)
                self._audit.record(changes.key_revoked(key))

    def used(self, at: dict[str, datetime]) -> None:
        with self._lock:
            for key_id, time in at.items():
                key = self._keys.get(key_id)
                if key is not None:
                    self._keys[key_id] = replace(key, last_used_at=max(key.last_used_at or time, time))
