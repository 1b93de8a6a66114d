"""The contract of PendingSets."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headwater.model.value_sets import filter_set_id
from headwater.stores.protocols.sets import PendingSets
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.pending_sets import RedisPendingSets
from tests.support.memory.sets import MemoryPendingSets

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)
A, B = filter_set_id("f1", "a"), filter_set_id("f1", "b")


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def pending_sets(request: pytest.FixtureRequest) -> Iterator[PendingSets]:
    if request.param == "memory":
        yield MemoryPendingSets()
        return
    client = connect(request.getfixturevalue(request.param))
    yield RedisPendingSets(client)
    client.close()


def test_added_before(pending_sets: PendingSets) -> None:
    pending_sets.add([A], NOW)
    pending_sets.add([B], NOW + SECOND)
    assert list(pending_sets.added_before(NOW)) == []
    assert list(pending_sets.added_before(NOW + SECOND)) == [A]
    assert list(pending_sets.added_before(NOW + 2 * SECOND)) == [A, B]
    pending_sets.remove([A, B])
    assert list(pending_sets.added_before(NOW + 2 * SECOND)) == []


def test_empty_lists_and_unknown_sets(pending_sets: PendingSets) -> None:
    pending_sets.add([], NOW)
    pending_sets.remove([])
    pending_sets.remove([A])
    assert list(pending_sets.added_before(NOW)) == []
