"""Every implementation of a SetStore, and helpers of the tests of sets."""

from collections.abc import Iterator, Sequence

import pytest

from headwater.model.value_sets import SetId, dataset_set_id, filter_set_id
from headwater.stores.protocols.sets import SetStore
from headwater.stores.redis.client import Client, connect
from headwater.stores.redis.sets.lookup import MIN_LOOKUPS_BEFORE_BUILD, REBUILD_AFTER_S, RedisSetLookup
from headwater.stores.redis.sets.set_store import RedisSetStore
from tests.support.memory.sets import MemorySetStore

TARGET = filter_set_id("01j00000000000000000000000", "t1")
OTHER = dataset_set_id("01j00000000000000000000000")

VALUES = [
    "0x" + "ab" * 20,
    "ab" * 20,
    "0x" + "ab" * 32,
    "ab" * 32,
    "0x" + "ab" * 31,
    "so11111111111111111111111111111111111111112",
    "ünïcode ☃ \U0001f40b",
    "\x00",
    "\ud800",
    "1",
    "x" * 1024,
]


class LooksUp(RedisSetStore):
    """A RedisSetStore whose lookups use a worker's RedisSetLookup.

    The lookup has a filter whenever it can have one.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._now = 0.0
        self.lookup = RedisSetLookup(client, clock=lambda: self._now)

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """Make the lookup build a filter, then look up the values."""
        self._now += REBUILD_AFTER_S
        self.lookup.contains_many(set_id, [f"provoke {number}" for number in range(MIN_LOOKUPS_BEFORE_BUILD)])
        self.lookup.wait()
        return self.lookup.contains_many(set_id, values)


@pytest.fixture(params=["memory", "set", "hash", "lookup", "cluster"])
def store(request: pytest.FixtureRequest) -> Iterator[SetStore]:
    """Return each implementation.

    "hash" is used with servers before Redis 7.2, "lookup" is the lookup of workers, and "cluster" uses three servers.
    """
    if request.param == "memory":
        yield MemorySetStore()
        return
    in_cluster = request.param == "cluster"
    client = connect(request.getfixturevalue("cluster_url" if in_cluster else "valkey_url"))
    if request.param == "lookup":
        looks_up = LooksUp(client)
        yield looks_up
        looks_up.lookup.close()
    else:
        yield RedisSetStore(client, None if in_cluster else request.param)
    client.close()


def numbers(first: int, last: int) -> list[str]:
    """Return addresses whose values are consecutive numbers."""
    return [f"0x{number:040x}" for number in range(first, last)]


def listing(store: SetStore, set_id: SetId, count: int) -> list[list[str]]:
    """Return all pages of a listing."""
    pages: list[list[str]] = []
    cursor = None
    while True:
        page = store.page(set_id, cursor, count)
        pages.append(page.values)
        cursor = page.cursor
        if cursor is None:
            return pages


def everything(store: SetStore, set_id: SetId, count: int = 1000) -> list[str]:
    """Return all values, by listing them."""
    return [value for page in listing(store, set_id, count) for value in page]
