"""What every DraftSets does."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headwater.model.dataset import filter_set
from headwater.stores.base import DraftSets
from headwater.stores.redis.client import connect
from headwater.stores.redis.drafts import RedisDraftSets
from tests.support.memory.sets import MemoryDraftSets

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = timedelta(seconds=1)
A, B = filter_set("f1", "a"), filter_set("f1", "b")


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def drafts(request: pytest.FixtureRequest) -> Iterator[DraftSets]:
    if request.param == "memory":
        yield MemoryDraftSets()
        return
    client = connect(request.getfixturevalue(request.param))
    yield RedisDraftSets(client)
    client.close()


def test_begun_before(drafts: DraftSets) -> None:
    drafts.begin([A], NOW)
    drafts.begin([B], NOW + SECOND)
    assert list(drafts.begun_before(NOW)) == []
    assert list(drafts.begun_before(NOW + SECOND)) == [A]
    assert list(drafts.begun_before(NOW + 2 * SECOND)) == [A, B]
    drafts.end([A, B])
    assert list(drafts.begun_before(NOW + 2 * SECOND)) == []


def test_nothing(drafts: DraftSets) -> None:
    drafts.begin([], NOW)
    drafts.end([])
    drafts.end([A])
    assert list(drafts.begun_before(NOW)) == []
