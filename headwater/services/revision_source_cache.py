"""Caches the source of each revision; None for a revision that Headwater can't read."""

import threading
from collections.abc import Collection, Mapping

from headwater.stores.protocols.overview import OverviewStore, RevisionId, SourceStream

MAX_CACHED = 200_000
"""How many revisions are cached. With more, the cache is cleared, and the revisions are read again."""


class RevisionSourceCache:
    """Caches the source of each revision, or None if the revision can't be read. Thread-safe.

    The pipeline of a revision never changes. So a list reads only the pipelines that were saved since the last list.
    The first list after a start reads all of its pipelines.
    """

    def __init__(self, store: OverviewStore) -> None:
        self._store = store
        self._cached: dict[RevisionId, SourceStream | None] = {}
        self._lock = threading.Lock()

    def sources(self, revisions: Collection[RevisionId]) -> Mapping[RevisionId, SourceStream]:
        """Return the source of each given revision that can be read.

        May block, and raises DatabaseUnavailable.
        """
        with self._lock:
            known = {revision: self._cached[revision] for revision in revisions if revision in self._cached}
        if new := [revision for revision in revisions if revision not in known]:
            sources = self._store.sources(new)
            read = {revision: sources.get(revision) for revision in new}
            self._add_to_cache(read)
            known |= read
        return {revision: source for revision, source in known.items() if source is not None}

    def _add_to_cache(self, read: dict[RevisionId, SourceStream | None]) -> None:
        with self._lock:
            if len(self._cached) + len(read) > MAX_CACHED:
                self._cached.clear()
            self._cached |= read
