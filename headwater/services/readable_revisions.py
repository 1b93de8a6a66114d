"""Knows which revisions of configurations this version of Headwater can read."""

import threading
from collections.abc import Collection

from headwater.stores.protocols.overview import OverviewStore, RevisionId

MAX_KNOWN = 200_000
"""How many revisions are remembered. With more, all are forgotten and read again."""


class ReadableRevisions:
    """Remembers which revisions can be read, since their pipelines never change. Thread-safe.

    So a list reads no pipelines except those that were saved since the last list, and all of them after a start.
    """

    def __init__(self, store: OverviewStore) -> None:
        self._store = store
        self._is_readable: dict[RevisionId, bool] = {}
        self._lock = threading.Lock()

    def readable(self, revisions: Collection[RevisionId]) -> frozenset[RevisionId]:
        """Return the given revisions that can be read. May block, and raises DatabaseUnavailable."""
        with self._lock:
            known = {revision: self._is_readable[revision] for revision in revisions if revision in self._is_readable}
        if new := [revision for revision in revisions if revision not in known]:
            unreadable = set(self._store.unreadable_among(new))
            read = {revision: revision not in unreadable for revision in new}
            self._remember(read)
            known |= read
        return frozenset(revision for revision, is_readable in known.items() if is_readable)

    def _remember(self, read: dict[RevisionId, bool]) -> None:
        with self._lock:
            if len(self._is_readable) + len(read) > MAX_KNOWN:
                self._is_readable.clear()
            self._is_readable |= read
