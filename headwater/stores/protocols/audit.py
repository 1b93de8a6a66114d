"""The protocol of the audit log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from headwater.model.audit import AuditEntry, AuditQuery, Change


class AuditLog(Protocol):
    """The log of changes and their actors.

    The SQL stores add the entries of their changes themselves, in the transaction of the change. The actor of each
    entry is `model.audit.current_actor()`.
    """

    def begin(self, change: Change) -> int:
        """Write a pending entry before a change outside of the database.

        Returns the id of the entry.
        """

    def close(self, entry_id: int, state: Literal["done", "failed"], after: str = "") -> None:
        """Close a pending entry. Do nothing when it is closed already, or was purged."""

    def read(self, query: AuditQuery) -> Sequence[AuditEntry]:
        """Return the newest entries that match a query, newest first."""

    def purge(self, before: datetime) -> int:
        """Delete the entries from before a time; return how many."""
