"""The audit log in memory."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, islice
from typing import Literal

from headwater.model.audit import AuditEntry, AuditQuery, Change, State, actor


class MemoryAudit:
    """AuditLog in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids = count(1)
        self._entries: dict[int, AuditEntry] = {}

    def record(self, change: Change, state: State = "done") -> int:
        """Add an entry; returns its id. Called by the other stores within their own locks."""
        who = actor()
        with self._lock:
            now = datetime.now(UTC)
            entry = AuditEntry(next(self._ids), now, who.key_id, who.ip, who.request_id, change, state)
            self._entries[entry.id] = entry
            return entry.id

    def begin(self, change: Change) -> int:
        return self.record(change, "pending")

    def close(self, entry_id: int, state: Literal["done", "failed"], after: str = "") -> None:
        with self._lock:
            entry = self._entries.get(entry_id)
            if entry is not None and entry.state == "pending":
                self._entries[entry_id] = replace(entry, state=state, change=replace(entry.change, after=after))

    def read(self, query: AuditQuery) -> Sequence[AuditEntry]:
        with self._lock:
            newest = reversed(self._entries.values())
            return list(islice((entry for entry in newest if _is_wanted(entry, query)), query.limit))

    def purge(self, before: datetime) -> int:
        with self._lock:
            old = [entry.id for entry in self._entries.values() if entry.at < before]
            for entry_id in old:
                del self._entries[entry_id]
            return len(old)


def _is_wanted(entry: AuditEntry, query: AuditQuery) -> bool:
    change = entry.change
    return (
        query.owner in (None, change.owner)
        and (query.object is None or f"{change.object}.".startswith(f"{query.object}."))
        and (query.since is None or entry.at >= query.since)
        and (query.until is None or entry.at < query.until)
    )
