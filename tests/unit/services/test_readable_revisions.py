"""The pipeline of a revision is read once."""

from collections.abc import Collection, Sequence

import pytest

from headwater.model.pagination import ListPosition
from headwater.model.pipeline_state import ConfigurationQuery, ConfigurationSummary
from headwater.services import readable_revisions
from headwater.services.readable_revisions import ReadableRevisions
from headwater.stores.protocols.overview import OverviewStore, RevisionId


class Store(OverviewStore):
    """Has one revision that can't be read."""

    def __init__(self) -> None:
        self.read: list[RevisionId] = []

    def summaries(
        self, owner: str, query: ConfigurationQuery, after: ListPosition | None, limit: int
    ) -> Sequence[ConfigurationSummary]:
        raise AssertionError("only revisions are read")

    def unreadable_among(self, revisions: Collection[RevisionId]) -> Collection[RevisionId]:
        self.read += revisions
        return [revision for revision in revisions if revision == RevisionId("bad", 1)]


GOOD, BAD, REPAIRED = RevisionId("good", 1), RevisionId("bad", 1), RevisionId("bad", 2)


def test_each_revision_is_read_once() -> None:
    store = Store()
    revisions = ReadableRevisions(store)
    assert revisions.readable([GOOD, BAD]) == {GOOD}
    assert revisions.readable([GOOD, BAD, REPAIRED]) == {GOOD, REPAIRED}
    assert revisions.readable([]) == frozenset()
    assert store.read == [GOOD, BAD, REPAIRED]


def test_the_number_of_remembered_revisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readable_revisions, "MAX_KNOWN", 2)
    store = Store()
    revisions = ReadableRevisions(store)
    revisions.readable([GOOD, BAD])
    assert revisions.readable([REPAIRED]) == {REPAIRED}
    assert revisions.readable([GOOD]) == {GOOD}
    assert store.read == [GOOD, BAD, REPAIRED, GOOD]
