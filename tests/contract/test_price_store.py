"""The contract of PriceStore."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
import redis

from headwater.model.price.archive import ArchiveKey, TimeBucket
from headwater.model.price.band import HOUR_MS, hour_of
from headwater.model.price.tick import TICKS_PARTITIONS, key_of_quoted_ticks, partition_of, token_key
from headwater.stores.protocols.prices import LIST_PERIOD_S, PriceStore, PriceWrite, StoredToken
from headwater.stores.redis.client import connect
from headwater.stores.redis.prices import ENTRIES_PER_SCRIPT, RedisPrices
from tests.support.memory.prices import MemoryPrices

NOW = int(time.time() * 1000)
HOUR = TimeBucket(hour_of(NOW))
MINUTES = TimeBucket(HOUR.hour, 0), TimeBucket(HOUR.hour, 59)
BEFORE, PAST = TimeBucket(HOUR.hour - HOUR_MS), TimeBucket(HOUR.hour - 28 * HOUR_MS)
ID = "topic"
X = b"x"
P = partition_of(X)


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def store(request: pytest.FixtureRequest) -> Iterator[PriceStore]:
    if request.param == "memory":
        yield MemoryPrices()
        return
    with closing(connect(request.getfixturevalue(request.param))) as client:
        yield RedisPrices(client)


def write(
    end: int,
    states: dict[bytes, bytes] | None = None,
    left: dict[ArchiveKey, bytes] | None = None,
    tails: dict[bytes, bytes] | None = None,
) -> PriceWrite:
    return PriceWrite(end, states or {}, left or {}, tails or {})


def states_of(store: PriceStore, partition: int, tokens: Sequence[bytes]) -> list[bytes | None]:
    found = store.read(partition, tokens)
    assert {tail for _, tail in found} <= {None}
    return [state for state, _ in found]


def test_nothing(store: PriceStore) -> None:
    assert store.acquire_partitions("a", ID, [3, 4]) == {}
    assert states_of(store, 3, [b"x", b"y"]) == [None, None]
    assert states_of(store, 3, []) == []
    assert store.read_archived([]) == []
    assert store.read_archived([(X, HOUR), (X, MINUTES[0])]) == [None, None]
    assert store.look_up([X], HOUR.hour) == [StoredToken()]
    assert store.look_up([], HOUR.hour) == []
    assert store.chains() == frozenset()


def test_written_states_are_read(store: PriceStore) -> None:
    store.acquire_partitions("a", ID, [P])
    left = {(X, HOUR): b"ticks", (X, MINUTES[0]): b"first", (X, MINUTES[1]): b"last", (X, BEFORE): b"\x00\xff"}
    assert store.write(P, "a", write(7, {X: b"\x01\x00", b"y": b"two"}, left)) == {}
    assert states_of(store, P, [b"y", X, b"y"]) == [b"two", b"\x01\x00", b"two"]
    assert store.read_archived([*reversed(left), (b"y", HOUR)]) == [*reversed(left.values()), None]
    assert states_of(store, P + 1, [X]) == [None]


def test_the_offset_is_that_of_the_last_write(store: PriceStore) -> None:
    store.acquire_partitions("a", ID, [1, 2])
    store.write(1, "a", write(10))
    store.write(1, "a", write(25))
    assert store.acquire_partitions("b", ID, [1, 2]) == {1: 25}


def test_an_earlier_owner_is_rejected(store: PriceStore) -> None:
    store.acquire_partitions("a", ID, [P, P + 1])
    store.write(P, "a", write(10, {X: b"old"}))
    store.acquire_partitions("b", ID, [P])
    assert None is store.write(P, "a", write(20, {X: b"late"}, {(X, HOUR): b"late"}))
    assert states_of(store, P, [X]) == [b"old"]
    assert store.read_archived([(X, HOUR)]) == [None]
    assert store.acquire_partitions("c", ID, [P]) == {P: 10}
    assert store.write(P + 1, "a", write(5)) == {}


def test_offsets_belong_to_one_topic(store: PriceStore) -> None:
    store.acquire_partitions("a", ID, [1])
    store.write(1, "a", write(10))
    assert store.acquire_partitions("b", "another", [1]) == {}
    assert store.write(1, "b", write(3)) == {}
    assert store.acquire_partitions("c", "another", [1]) == {1: 3}
    assert store.acquire_partitions("d", ID, [1]) == {}


def test_a_store_that_lost_the_last_write_rejects_the_next(valkey_url: str) -> None:
    with closing(connect(valkey_url)) as client:
        store = RedisPrices(client)
        store.acquire_partitions("a", ID, [3])
        store.write(3, "a", write(10))
        before = client.call("DUMP", "{px:3}:who")
        store.write(3, "a", write(20, {b"x": b"lost"}))
        client.call("RESTORE", "{px:3}:who", 0, before, "REPLACE")
        assert None is store.write(3, "a", write(30, {b"x": b"late"}))
        assert store.acquire_partitions("b", ID, [3]) == {3: 10}
        assert store.write(3, "b", write(30)) == {}


def test_large_states_are_written_in_parts(store: PriceStore) -> None:
    states = {b"t%d" % n: b"x" * 3_000_000 for n in range(4)}
    store.acquire_partitions("a", ID, [6])
    assert store.write(6, "a", write(1, states)) == {}
    assert states_of(store, 6, [*states]) == [*states.values()]


def test_many_at_once(store: PriceStore) -> None:
    tokens = [token for token in (b"t%d" % n for n in range(50 * ENTRIES_PER_SCRIPT)) if partition_of(token) == P]
    states = {token: b"s" + token for token in tokens[: 2 * ENTRIES_PER_SCRIPT + 1]}
    store.acquire_partitions("a", ID, [P])
    assert store.write(P, "a", write(1, states, {(token, HOUR): state for token, state in states.items()})) == {}
    assert states_of(store, P, [*states]) == [*states.values()]
    assert store.read_archived([(token, HOUR) for token in states]) == [*states.values()]


def test_tokens_of_all_partitions_are_looked_up(store: PriceStore) -> None:
    tokens = [token_key("base", f"0x{n:040x}").encode() for n in range(200)]
    assert {partition_of(token) for token in tokens} == set(range(TICKS_PARTITIONS))
    store.acquire_partitions("a", ID, range(TICKS_PARTITIONS))
    for number, token in enumerate(tokens):
        left: dict[ArchiveKey, bytes] = {} if number % 3 else {(token, HOUR): b"h%d" % number}
        store.write(partition_of(token), "a", write(number, {token: b"s%d" % number}, left))
    asked = [*tokens, b"unknown", tokens[0]]
    hours = [None if n % 3 else b"h%d" % n for n in range(200)] + [None, b"h0"]
    found = store.look_up(asked, HOUR.hour)
    assert found[:200] == [StoredToken(b"s%d" % n, None, hours[n]) for n in range(200)]
    assert found[200:] == [StoredToken(), StoredToken(b"s0", None, b"h0")]
    assert store.read_archived([(token, HOUR) for token in asked]) == hours


def test_tails_grow_until_their_state_is_written(store: PriceStore) -> None:
    store.acquire_partitions("a", ID, [P])
    assert store.write(P, "a", write(1, tails={X: b"one", b"y": b"other"})) == {X: 3, b"y": 5}
    assert store.write(P, "a", write(2, {b"y": b"state"}, tails={X: b"two"})) == {X: 6}
    assert store.read(P, [b"y", X]) == [(b"state", None), (None, b"onetwo")]
    assert store.look_up([X], HOUR.hour) == [StoredToken(None, b"onetwo", None)]
    assert store.write(P, "a", write(3, {X: b"state"}, tails={b"y": b"again"})) == {b"y": 5}
    assert store.read(P, [b"y", X]) == [(b"state", b"again"), (b"state", None)]
    store.acquire_partitions("b", ID, [P])
    assert store.write(P, "a", write(4, tails={X: b"late"})) is None
    assert store.read(P, [X]) == [(b"state", None)]


def test_many_tails_at_once(store: PriceStore) -> None:
    tokens = [token for token in (b"t%d" % n for n in range(50 * ENTRIES_PER_SCRIPT)) if partition_of(token) == P]
    store.acquire_partitions("a", ID, [P])
    for times in (1, 2):
        grown = store.write(P, "a", write(1, tails={token: token for token in tokens}))
        assert grown == {token: times * len(token) for token in tokens}
    assert store.read(P, tokens) == [(None, token + token) for token in tokens]


def test_quoted_ticks_are_found_beside_the_token(store: PriceStore) -> None:
    quoted = key_of_quoted_ticks(X)
    assert partition_of(quoted) == P
    store.acquire_partitions("a", ID, [P])
    assert store.unsettled(P) == frozenset()
    first = PriceWrite(1, {X: b"own"}, {(quoted, HOUR): b"h"}, {quoted: b"one"}, unsettled=[quoted])
    assert store.write(P, "a", first) == {quoted: 3}
    assert store.look_up([X, b"y"], HOUR.hour) == [StoredToken(b"own", None, None, None, b"one"), StoredToken()]
    assert store.read_archived([(quoted, HOUR), (X, HOUR)]) == [b"h", None]
    assert store.unsettled(P) == {quoted}
    assert store.write(P, "a", PriceWrite(2, {quoted: b"state"}, {}, {}, settled=[quoted, b"other"])) == {}
    assert store.look_up([X], HOUR.hour) == [StoredToken(b"own", None, None, b"state", None)]
    assert store.unsettled(P) == frozenset()


def test_an_earlier_owner_cannot_mark_ticks(store: PriceStore) -> None:
    store.acquire_partitions("a", ID, [P])
    store.write(P, "a", PriceWrite(1, {}, {}, {}, unsettled=[X]))
    store.acquire_partitions("b", ID, [P])
    assert store.write(P, "a", PriceWrite(2, {}, {}, {}, unsettled=[b"y"], settled=[X])) is None
    assert store.unsettled(P) == {X}


def test_many_unsettled_at_once(store: PriceStore) -> None:
    keys = [b"t%d" % n for n in range(2 * ENTRIES_PER_SCRIPT + 1)]
    store.acquire_partitions("a", ID, [P])
    store.write(P, "a", PriceWrite(1, {}, {}, {}, unsettled=keys))
    assert store.unsettled(P) == {*keys}
    store.write(P, "a", PriceWrite(2, {}, {}, {}, settled=keys[1:]))
    assert store.unsettled(P) == {keys[0]}


def test_chains(store: PriceStore) -> None:
    store.add_chains(["base", "solana"])
    store.add_chains(["base"])
    assert store.chains() == {"base", "solana"}


def test_all_keys_expire(valkey_url: str) -> None:
    with closing(connect(valkey_url)) as client:
        store = RedisPrices(client)
        store.acquire_partitions("a", ID, [3])
        store.write(3, "a", write(1, {X: b"s"}, {(X, HOUR): b"h", (X, PAST): b"past"}, {b"y": b"tail"}))
        client.call("EXPIRE", "{px:3}:t:x", 100)
        store.write(3, "a", write(2, tails={X: b"tail"}))
    with closing(redis.Redis.from_url(valkey_url)) as direct:
        kept = {key: direct.ttl(key) for key in direct.keys("{px:3}*")}
    assert kept.pop(b"{px:3}:who") == -1
    assert len(kept) == 4  # an hour outside of all windows expires immediately
    assert all(0 < ttl <= 30 * 86_400 for ttl in kept.values())
    assert kept[b"{px:3}:t:x"] > 100


def test_the_list_of_tokens_has_two_periods(store: PriceStore) -> None:
    period = NOW // 1000 // LIST_PERIOD_S
    store.add_tokens([b"base:b", b"base:a", b"solana:x"], period - 1)
    store.add_tokens([b"base:b", "base:é".encode()], period)
    store.add_tokens([b"%d" % number for number in range(ENTRIES_PER_SCRIPT + 1)], period + 1)
    assert store.tokens_after(b"", b"", 10, period) == [b"base:a", b"base:b", "base:é".encode(), b"solana:x"]
    assert store.tokens_after(b"", b"", 2, period) == [b"base:a", b"base:b"]
    assert store.tokens_after(b"base:a", b"base:", 1, period) == [b"base:b"]
    assert store.tokens_after(b"base:b", b"s", 9, period) == [b"solana:x"]
    assert store.tokens_after(b"solana:x", b"base:", 9, period) == []
    assert len(store.tokens_after(b"", b"", 9999, period + 2)) == ENTRIES_PER_SCRIPT + 1
