"""What every PriceStore does."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from headwater.model.price.band import HOUR_MS, hour_of
from headwater.model.price.tick import PARTITIONS, partition_of, token_key
from headwater.stores.base import PriceStore, PriceWrite
from headwater.stores.memory.prices import MemoryPrices
from headwater.stores.redis.client import connect
from headwater.stores.redis.prices import PER_SCRIPT, RedisPrices

NOW = int(time.time() * 1000)
HOUR = hour_of(NOW)
ID = "topic"


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def store(request: pytest.FixtureRequest) -> Iterator[PriceStore]:
    if request.param == "memory":
        yield MemoryPrices()
        return
    with closing(connect(request.getfixturevalue(request.param))) as client:
        yield RedisPrices(client)


def write(
    end: int, states: dict[bytes, bytes] | None = None, hours: dict[tuple[int, bytes], bytes] | None = None
) -> PriceWrite:
    return PriceWrite(end, states or {}, hours or {})


def test_nothing(store: PriceStore) -> None:
    assert store.take("a", ID, [3, 4]) == {}
    assert store.read(3, [b"x", b"y"]) == [None, None]
    assert store.read(3, []) == []
    assert store.read_hours(3, []) == []
    assert store.read_hours(3, [(HOUR, b"x")]) == [None]
    assert store.look_up([b"x"], HOUR) == [(None, None)]
    assert store.look_up([], HOUR) == []
    assert store.chains() == frozenset()


def test_what_is_written_is_read(store: PriceStore) -> None:
    store.take("a", ID, [3])
    hours = {(HOUR, b"x"): b"ticks", (HOUR - HOUR_MS, b"y"): b"\x00\xff"}
    assert store.write(3, "a", write(7, {b"x": b"\x01\x00", b"y": b"two"}, hours))
    assert store.read(3, [b"y", b"x", b"y"]) == [b"two", b"\x01\x00", b"two"]
    assert store.read_hours(3, [(HOUR, b"x"), (HOUR, b"y"), (HOUR - HOUR_MS, b"y")]) == [b"ticks", None, b"\x00\xff"]
    assert store.read(4, [b"x"]) == [None]


def test_the_position_is_that_of_the_last_write(store: PriceStore) -> None:
    store.take("a", ID, [1, 2])
    store.write(1, "a", write(10))
    store.write(1, "a", write(25))
    assert store.take("b", ID, [1, 2]) == {1: 25}


def test_an_earlier_owner_is_refused(store: PriceStore) -> None:
    store.take("a", ID, [1, 2])
    store.write(1, "a", write(10, {b"x": b"old"}))
    store.take("b", ID, [1])
    assert not store.write(1, "a", write(20, {b"x": b"late"}, {(HOUR, b"x"): b"late"}))
    assert store.read(1, [b"x"]) == [b"old"]
    assert store.read_hours(1, [(HOUR, b"x")]) == [None]
    assert store.take("c", ID, [1]) == {1: 10}
    assert store.write(2, "a", write(5))


def test_positions_are_those_of_one_topic(store: PriceStore) -> None:
    store.take("a", ID, [1])
    store.write(1, "a", write(10))
    assert store.take("b", "another", [1]) == {}
    assert store.write(1, "b", write(3))
    assert store.take("c", "another", [1]) == {1: 3}
    assert store.take("d", ID, [1]) == {}


def test_a_store_that_lost_the_last_write_refuses_the_next(valkey_url: str) -> None:
    with closing(connect(valkey_url)) as client:
        store = RedisPrices(client)
        store.take("a", ID, [3])
        store.write(3, "a", write(10))
        before = client.call("DUMP", "{px:3}:who")
        store.write(3, "a", write(20, {b"x": b"lost"}))
        client.call("RESTORE", "{px:3}:who", 0, before, "REPLACE")
        assert not store.write(3, "a", write(30, {b"x": b"late"}))
        assert store.take("b", ID, [3]) == {3: 10}
        assert store.write(3, "b", write(30))


def test_large_states_are_written_in_parts(store: PriceStore) -> None:
    states = {b"t%d" % n: b"x" * 3_000_000 for n in range(4)}
    store.take("a", ID, [6])
    assert store.write(6, "a", write(1, states))
    assert store.read(6, [*states]) == [*states.values()]


def test_many_at_once(store: PriceStore) -> None:
    states = {b"t%d" % n: b"s%d" % n for n in range(2 * PER_SCRIPT + 1)}
    store.take("a", ID, [5])
    assert store.write(5, "a", write(1, states, {(HOUR, token): state for token, state in states.items()}))
    assert store.read(5, [*states]) == [*states.values()]
    assert store.read_hours(5, [(HOUR, token) for token in states]) == [*states.values()]


def test_tokens_of_all_partitions_are_looked_up(store: PriceStore) -> None:
    tokens = [token_key("base", f"0x{n:040x}").encode() for n in range(200)]
    assert {partition_of(token) for token in tokens} == set(range(PARTITIONS))
    store.take("a", ID, range(PARTITIONS))
    for number, token in enumerate(tokens):
        hours = {} if number % 3 else {(HOUR, token): b"h%d" % number}
        store.write(partition_of(token), "a", write(number, {token: b"s%d" % number}, hours))
    asked = [*tokens, b"unknown", tokens[0]]
    found = store.look_up(asked, HOUR)
    assert found[:200] == [(b"s%d" % n, None if n % 3 else b"h%d" % n) for n in range(200)]
    assert found[200:] == [(None, None), (b"s0", b"h0")]


def test_chains(store: PriceStore) -> None:
    store.note_chains(["base", "solana"])
    store.note_chains(["base"])
    assert store.chains() == {"base", "solana"}


def test_nothing_stays_for_ever(valkey_url: str) -> None:
    with closing(connect(valkey_url)) as client:
        store = RedisPrices(client)
        store.take("a", ID, [3])
        store.write(3, "a", write(1, {b"x": b"s"}, {(HOUR, b"x"): b"h", (HOUR - 28 * HOUR_MS, b"x"): b"past"}))
    with closing(redis.Redis.from_url(valkey_url)) as direct:
        kept = {key: direct.ttl(key) for key in direct.keys("{px:3}*")}
    assert kept.pop(b"{px:3}:who") == -1
    assert len(kept) == 2  # an hour that nobody can ask for is gone at once
    assert all(0 < ttl <= 30 * 86_400 for ttl in kept.values())
