"""The lookups of workers, with a Bloom filter in front of the server.

Their answers are always exact.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
import redis

from headwater.errors import RedisUnavailable
from headwater.model.value_sets import filter_set_id
from headwater.stores.redis.client import Client, Script, connect
from headwater.stores.redis.connection import Argument, Command
from headwater.stores.redis.sets.layout import SetKeys
from headwater.stores.redis.sets.lookup import (
    LOG_ENTRIES_PER_LOOKUP,
    MIN_LOOKUPS_BEFORE_BUILD,
    REBUILD_AFTER_S,
    RedisSetLookup,
)
from headwater.stores.redis.sets.set_store import RedisSetStore
from tests.support.sets import TARGET, numbers
from tests.support.valkey import ValkeyServer

LOG = f"{{fs:{TARGET.id}}}:log"
PRESENT, ABSENT = numbers(0, 2_000), numbers(10_000, 12_000)


class Counting(Client):
    """Records how many keys each lookup was about."""

    def __init__(self, server: redis.Redis) -> None:
        super().__init__(server)
        self.keys: list[int] = []

    def run(self, script: Script, keys: Sequence[Argument], args: Sequence[Argument]) -> Any:
        self.keys.append(len(keys))
        return super().run(script, keys, args)

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        if any("HMGET" in command for command in commands):  # otherwise values are read for a filter
            self.keys.append(len(commands))
        return super().pipeline(commands)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(valkey_url: str) -> Iterator[Counting]:
    with redis.Redis.from_url(valkey_url, protocol=2) as server:
        yield Counting(server)


@pytest.fixture
def store(client: Counting) -> RedisSetStore:
    store = RedisSetStore(client)
    store.add(TARGET, PRESENT)
    return store


@pytest.fixture
def lookup(client: Counting, clock: Clock) -> Iterator[RedisSetLookup]:
    lookup = RedisSetLookup(client, clock)
    yield lookup
    lookup.close()


def keys_asked(client: Counting, lookup: RedisSetLookup, values: list[str]) -> int:
    """Return how many keys the server reads for one lookup. Also checks the answers."""
    client.keys.clear()
    lookup.contains_many(TARGET, values)
    return sum(client.keys)


def warm(lookup: RedisSetLookup) -> None:
    """Let the lookup build its filter."""
    for _ in range(2):
        lookup.contains_many(TARGET, ABSENT)
        lookup.wait()


class TestFilter:
    def test_the_filter_answers_nearly_all_lookups_of_absent_values(
        self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup
    ) -> None:
        assert keys_asked(client, lookup, ABSENT) > 2_000
        warm(lookup)
        assert keys_asked(client, lookup, ABSENT) < 100
        assert len(client.keys) == 1
        assert lookup.contains_many(TARGET, [*PRESENT, *ABSENT]) == [True] * 2_000 + [False] * 2_000

    def test_repeated_values_of_a_lookup_are_sent_once(
        self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup
    ) -> None:
        warm(lookup)
        few = [*PRESENT[:3], ABSENT[0]]
        values = few * 300 + PRESENT[3:5]
        assert lookup.contains_many(TARGET, values) == store.contains_many(TARGET, values)
        assert keys_asked(client, lookup, values) <= 1 + 6

    def test_a_filter_is_built_for_a_set_that_was_empty_at_first(
        self, client: Counting, lookup: RedisSetLookup
    ) -> None:
        SetKeys.of(TARGET).create_set(client, "set")
        warm(lookup)
        RedisSetStore(client).add(TARGET, PRESENT)
        warm(lookup)
        assert keys_asked(client, lookup, ABSENT) < 100

    def test_no_filter_is_built_for_a_set_with_few_lookups(
        self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup
    ) -> None:
        asked = ABSENT[: MIN_LOOKUPS_BEFORE_BUILD // 2]
        lookup.contains_many(TARGET, asked)
        lookup.wait()
        assert keys_asked(client, lookup, asked) > len(asked)

    def test_no_filter_is_built_beyond_its_memory_limit(self, client: Counting, store: RedisSetStore) -> None:
        lookup = RedisSetLookup(client, max_bloom_bytes=1_000)
        warm(lookup)
        assert keys_asked(client, lookup, ABSENT) > 2_000
        lookup.close()

    def test_a_set_whose_filter_is_too_large_drops_no_other_filter(
        self, client: Counting, store: RedisSetStore
    ) -> None:
        few = numbers(0, MIN_LOOKUPS_BEFORE_BUILD)
        small = filter_set_id("f1", "small")
        store.add(small, few)
        with closing(RedisSetLookup(client, max_bloom_bytes=1_000)) as lookup:
            for set_id in (small, TARGET):
                lookup.contains_many(set_id, ABSENT)
                lookup.wait()
            client.keys.clear()
            lookup.contains_many(small, ABSENT)
            assert sum(client.keys) < 100

    def test_a_filter_that_grows_while_it_is_built_stays_below_the_memory_limit(
        self, valkey_url: str, store: RedisSetStore
    ) -> None:
        class GrowingSet(Client):
            """Adds values to the set before they are read for a filter."""

            def pipeline(self, commands: Sequence[Command]) -> list[Any]:
                if any("HGET" in command for command in commands):
                    store.add(TARGET, numbers(20_000, 23_000))
                return super().pipeline(commands)

        with (
            redis.Redis.from_url(valkey_url, protocol=2) as server,
            closing(RedisSetLookup(GrowingSet(server), max_bloom_bytes=22_000)) as lookup,
        ):
            warm(lookup)
            current = lookup._sets[TARGET].bloom_filter
            assert current is not None
            assert current.bloom.size_bytes <= 22_000

    def test_no_values(self, store: RedisSetStore, lookup: RedisSetLookup) -> None:
        assert lookup.contains_many(TARGET, []) == []


class TestWrites:
    def test_writes_are_seen_by_the_next_lookup(
        self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup
    ) -> None:
        warm(lookup)
        for value in ABSENT[:50]:
            store.add(TARGET, [value])
            assert lookup.contains_many(TARGET, [value, "x"]) == [True, False]
            store.remove(TARGET, [value])
            assert lookup.contains_many(TARGET, [value, "x"]) == [False, False]
        assert keys_asked(client, lookup, ABSENT) < 200

    def test_many_writes(self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup) -> None:
        warm(lookup)
        for value in ABSENT[: LOG_ENTRIES_PER_LOOKUP + 10]:
            store.add(TARGET, [value])
        added = LOG_ENTRIES_PER_LOOKUP + 10
        assert lookup.contains_many(TARGET, ABSENT) == [True] * added + [False] * (2_000 - added)
        lookup.wait()
        assert keys_asked(client, lookup, ABSENT[added:]) < 200

    def test_writes_that_the_log_has_lost(
        self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup, clock: Clock
    ) -> None:
        warm(lookup)
        client.call("XTRIM", LOG, "MAXLEN", 0)
        store.add(TARGET, ABSENT[:1])
        assert lookup.contains_many(TARGET, ABSENT) == [True] + [False] * 1_999
        warm(lookup)
        assert keys_asked(client, lookup, ABSENT) > 2_000, "built anew too soon"
        clock.now += REBUILD_AFTER_S
        warm(lookup)
        assert keys_asked(client, lookup, ABSENT[1:]) < 100

    def test_of_a_replace(self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup, clock: Clock) -> None:
        warm(lookup)
        store.replace(TARGET, ABSENT[:10])
        assert lookup.contains_many(TARGET, [*ABSENT[:11], PRESENT[0]]) == [True] * 10 + [False, False]
        clock.now += REBUILD_AFTER_S
        warm(lookup)
        assert keys_asked(client, lookup, ABSENT[10:]) < 100

    def test_of_a_set_made_again(self, store: RedisSetStore, lookup: RedisSetLookup) -> None:
        warm(lookup)
        store.drop(TARGET)
        assert lookup.contains_many(TARGET, PRESENT[:2]) == [False, False]
        store.add(TARGET, PRESENT[1:2])
        assert lookup.contains_many(TARGET, PRESENT[:2]) == [False, True]

    def test_counted_twice_by_a_server_that_lost_some(
        self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup
    ) -> None:
        warm(lookup)
        keys = client.call("KEYS", "*")
        before = {key: client.call("DUMP", key) for key in keys}
        store.add(TARGET, ABSENT[:1])
        assert lookup.contains_many(TARGET, ABSENT[:1]) == [True]
        client.call("FLUSHALL")
        for key, dump in before.items():
            client.call("RESTORE", key, 0, dump)
        store.add(TARGET, ABSENT[1:2])
        assert lookup.contains_many(TARGET, ABSENT[:3]) == [False, True, False]
        store.add(TARGET, ABSENT[2:3])
        assert lookup.contains_many(TARGET, ABSENT[:3]) == [False, True, True]

    def test_writes_beyond_the_filters_capacity_make_it_grow(
        self, client: Counting, store: RedisSetStore, lookup: RedisSetLookup, clock: Clock
    ) -> None:
        warm(lookup)
        store.add(TARGET, numbers(100_000, 130_000))
        lookup.contains_many(TARGET, ABSENT)
        lookup.wait()
        assert keys_asked(client, lookup, ABSENT) < 150, "without growth nearly all are maybes"
        clock.now += REBUILD_AFTER_S
        warm(lookup)
        assert keys_asked(client, lookup, [*ABSENT, *numbers(129_000, 130_000)]) < 1_500


class TestAtOnce:
    @pytest.mark.slow
    def test_exactly_the_acknowledged_writes_are_seen(self, store: RedisSetStore, client: Counting) -> None:
        """Lookups agree with the acknowledged writes.

        A writer adds and removes values while readers check them.
        """
        written, stop = [0], threading.Event()
        wrong: list[object] = []

        def read() -> None:
            lookup = RedisSetLookup(client)
            while not stop.is_set():
                first = written[0]
                answers = lookup.contains_many(TARGET, [*ABSENT[:first], *ABSENT[-500:]])
                if not all(answers[:first]) or any(answers[first:]):
                    wrong.append((first, answers))
            lookup.close()

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(0, 1_500, 5):
            store.add(TARGET, ABSENT[number : number + 5])
            written[0] = number + 5
        stop.set()
        for reader in readers:
            reader.join()
        assert wrong == []


class TestOutage:
    def test_lookups_raise_errors_during_an_outage_and_continue_afterwards(self, valkey_server: ValkeyServer) -> None:
        client = connect(valkey_server.url)
        store, lookup = RedisSetStore(client), RedisSetLookup(client)
        store.add(TARGET, PRESENT)
        warm(lookup)
        valkey_server.kill()
        with pytest.raises(RedisUnavailable):
            lookup.contains_many(TARGET, PRESENT[:1])
        valkey_server.start()
        store.add(TARGET, ABSENT[:1])
        assert lookup.contains_many(TARGET, [PRESENT[0], *ABSENT[:2]]) == [True, True, False]
        lookup.close()
        client.close()
