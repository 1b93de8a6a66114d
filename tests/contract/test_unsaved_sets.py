"""The contract of UnsavedSets."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headwater.model.value_sets import filter_set_id
from headwater.stores.protocols.sets import UnsavedSets
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.unsaved_sets import RedisUnsavedSets
from tests.support.memory.sets import MemoryUnsavedSets

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)
A, B = filter_set_id("f1", "a"), filter_set_id("f1", "b")


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def unsaved_sets(request: pytest.FixtureRequest) -> Iterator[UnsavedSets]:
    if request.param == "memory":
        yield MemoryUnsavedSets()
        return
    client = connect(request.getfixturevalue(request.param))
    yield RedisUnsavedSets(client)
    client.close()


def test_added_before(unsaved_sets: UnsavedSets) -> None:
    unsaved_sets.add([A], NOW)
    unsaved_sets.add([B], NOW + SECOND)
    assert list(unsaved_sets.added_before(NOW)) == []
    assert list(unsaved_sets.added_before(NOW + SECOND)) == [A]
    assert list(unsaved_sets.added_before(NOW + 2 * SECOND)) == [A, B]
    unsaved_sets.remove([A, B])
    assert list(unsaved_sets.added_before(NOW + 2 * SECOND)) == []


def test_empty_lists_and_unknown_sets(unsaved_sets: UnsavedSets) -> None:
    unsaved_sets.add([], NOW)
    unsaved_sets.remove([])
    unsaved_sets.remove([A])
    assert list(unsaved_sets.added_before(NOW)) == []
