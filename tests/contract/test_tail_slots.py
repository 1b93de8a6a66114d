"""The contract of TailSlots."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import redis

from headwater.errors import RedisUnavailable
from headwater.stores.protocols import tail_slots
from headwater.stores.protocols.tail_slots import TailSlots
from headwater.stores.redis.client import connect
from headwater.stores.redis.tail_slots import KEY, RedisTailSlots
from tests.support.memory.tail_slots import MemoryTailSlots


@pytest.fixture(params=["memory", "valkey"])
def slots(request: pytest.FixtureRequest) -> Iterator[TailSlots]:
    if request.param == "memory":
        yield MemoryTailSlots(time.monotonic)
        return
    with closing(connect(request.getfixturevalue("valkey_url"))) as client:
        yield RedisTailSlots(client)


def test_an_owner_may_have_so_many(slots: TailSlots) -> None:
    assert slots.acquire("alice", ["a1", "a2"], total=9, per_owner=3) is None
    assert slots.acquire("alice", ["a3", "a4"], total=9, per_owner=3) == "owner"
    assert slots.acquire("alice", ["a3"], total=9, per_owner=3) is None
    assert slots.acquire("alice:x", ["b1", "b2", "b3"], total=9, per_owner=3) is None


def test_all_owners_together_may_have_so_many(slots: TailSlots) -> None:
    assert slots.acquire("alice", ["a1", "a2"], total=3, per_owner=9) is None
    assert slots.acquire("bob", ["b1", "b2"], total=3, per_owner=9) == "total"
    assert slots.acquire("bob", ["b1"], total=3, per_owner=9) is None
    assert slots.acquire("carol", ["c1"], total=3, per_owner=9) == "total"


def test_released_slots_are_free(slots: TailSlots) -> None:
    slots.acquire("alice", ["a1", "a2"], total=2, per_owner=2)
    slots.release({"a1": "alice", "unknown": "alice", "a2": "bob"})
    slots.release({})
    assert slots.acquire("alice", ["a3", "a4"], total=2, per_owner=2) == "total"
    assert slots.acquire("alice", ["a3"], total=2, per_owner=2) is None


def test_slots_that_are_not_renewed_expire(
    slots: TailSlots, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for module in (tail_slots, "headwater.stores.redis.tail_slots", "tests.support.memory.tail_slots"):
        target = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{target}.SLOT_TTL_S", 0.05)
    slots.acquire("alice", ["a1", "a2"], total=2, per_owner=2)
    while slots.acquire("bob", ["b1"], total=2, per_owner=2):
        slots.renew({"a1": "alice"})
    assert slots.acquire("carol", ["c1"], total=2, per_owner=2) in ("total", None)


def test_a_renewal_counts_a_slot_that_was_lost(slots: TailSlots) -> None:
    slots.renew({})
    slots.renew({"a1": "alice"})
    assert slots.acquire("alice", ["a2"], total=9, per_owner=1) == "owner"


def test_concurrent_calls_never_exceed_a_limit(slots: TailSlots) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda i: slots.acquire(f"o{i % 4}", [f"t{i:02}"], total=10, per_owner=3), range(32)))
    assert taken.count(None) == 10


def test_the_key_expires(valkey_url: str) -> None:
    with closing(connect(valkey_url)) as client, redis.Redis.from_url(valkey_url) as server:
        RedisTailSlots(client).acquire("alice", ["a1"], total=1, per_owner=1)
        assert list(server.keys("*")) == [KEY.encode()]
        assert 0 < server.pttl(KEY) <= 30_000
        RedisTailSlots(client).release({"a1": "alice"})
        assert not server.exists(KEY)


def test_an_unavailable_server(tmp_path: Path) -> None:
    with closing(connect(f"unix://{tmp_path}/none.sock")) as client, pytest.raises(RedisUnavailable):
        RedisTailSlots(client).acquire("alice", ["a1"], total=1, per_owner=1)
