"""The contract of UnsavedSets."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headwater.model.value_sets import filter_set
from headwater.stores.protocols.sets import UnsavedSets
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.unsaved_sets import RedisUnsavedSets
from tests.support.memory.sets import MemoryUnsavedSets

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)
A, B = filter_set("f1", "a"), filter_set("f1", "b")


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def drafts(request: pytest.FixtureRequest) -> Iterator[UnsavedSets]:
    if request.param == "memory":
        yield MemoryUnsavedSets()
        return
    client = connect(request.getfixturevalue(request.param))
    yield RedisUnsavedSets(client)
    client.close()


def test_begun_before(drafts: UnsavedSets) -> None:
    drafts.begin([A], NOW)
    drafts.begin([B], NOW + SECOND)
    assert list(drafts.begun_before(NOW)) == []
    assert list(drafts.begun_before(NOW + SECOND)) == [A]
    assert list(drafts.begun_before(NOW + 2 * SECOND)) == [A, B]
    drafts.end([A, B])
    assert list(drafts.begun_before(NOW + 2 * SECOND)) == []


def test_nothing(drafts: UnsavedSets) -> None:
    drafts.begin([], NOW)
    drafts.end([])
    drafts.end([A])
    assert list(drafts.begun_before(NOW)) == []
