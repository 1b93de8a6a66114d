"""Knows the sources of the revisions that this version of Headwater can read."""

import threading
from collections.abc import Collection, Mapping

from headwater.stores.protocols.overview import OverviewStore, RevisionId, SourceStream

MAX_KNOWN = 200_000
"""How many revisions are remembered. With more, all are forgotten and read again."""


class ReadableRevisions:
    """Remembers the sources of revisions that can be read. Thread-safe.

    The pipeline of a revision never changes. So a list reads no pipelines except those that were saved since the last
    list, and all of them after a start.
    """

    def __init__(self, store: OverviewStore) -> None:
        self._store = store
        self._known: dict[RevisionId, SourceStream | None] = {}
        self._lock = threading.Lock()

    def sources(self, revisions: Collection[RevisionId]) -> Mapping[RevisionId, SourceStream]:
        """Return the source of each given revision that can be read.

        May block, and raises DatabaseUnavailable.
        """
        with self._lock:
            known = {revision: self._known[revision] for revision in revisions if revision in self._known}
        if new := [revision for revision in revisions if revision not in known]:
            sources = self._store.sources(new)
            read = {revision: sources.get(revision) for revision in new}
            self._remember(read)
            known |= read
        return {revision: source for revision, source in known.items() if source is not None}

    def _remember(self, read: dict[RevisionId, SourceStream | None]) -> None:
        with self._lock:
            if len(self._known) + len(read) > MAX_KNOWN:
                self._known.clear()
            self._known |= read
