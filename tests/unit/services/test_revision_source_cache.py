"""The pipeline of a revision is read once."""

from collections.abc import Collection, Mapping, Sequence

import pytest

from headwater.model.pagination import ListPosition
from headwater.model.pipeline_state import ConfigurationQuery, ConfigurationSummary
from headwater.services import revision_source_cache
from headwater.services.revision_source_cache import RevisionSourceCache
from headwater.stores.protocols.overview import OverviewStore, RevisionId, SourceStream


class Store(OverviewStore):
    """Has one revision that can't be read."""

    def __init__(self) -> None:
        self.read: list[RevisionId] = []

    def summaries(
        self, owner: str, query: ConfigurationQuery, after: ListPosition | None, limit: int
    ) -> Sequence[ConfigurationSummary]:
        raise AssertionError("only revisions are read")

    def sources(self, revisions: Collection[RevisionId]) -> Mapping[RevisionId, SourceStream]:
        self.read += revisions
        return {revision: LOG for revision in revisions if revision != RevisionId("bad", 1)}


LOG = SourceStream("base", "log")
GOOD, BAD, REPAIRED = RevisionId("good", 1), RevisionId("bad", 1), RevisionId("bad", 2)


def test_each_revision_is_read_once() -> None:
    store = Store()
    revisions = RevisionSourceCache(store)
    assert revisions.sources([GOOD, BAD]) == {GOOD: LOG}
    assert revisions.sources([GOOD, BAD, REPAIRED]) == {GOOD: LOG, REPAIRED: LOG}
    assert revisions.sources([]) == {}
    assert store.read == [GOOD, BAD, REPAIRED]


def test_the_number_of_remembered_revisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revision_source_cache, "MAX_CACHED", 2)
    store = Store()
    revisions = RevisionSourceCache(store)
    revisions.sources([GOOD, BAD])
    assert revisions.sources([REPAIRED]) == {REPAIRED: LOG}
    assert revisions.sources([GOOD]) == {GOOD: LOG}
    assert store.read == [GOOD, BAD, REPAIRED, GOOD]
