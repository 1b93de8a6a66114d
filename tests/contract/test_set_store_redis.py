"""The set store and its server: keys, lost replies, restarts, several processes."""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import redis

from headwater.errors import RedisUnavailable, UploadAborted
from headwater.stores.protocols.sets import SetWriteResult
from headwater.stores.redis.client import Client, Script, connect
from headwater.stores.redis.connection import Argument, EncodedCommands
from headwater.stores.redis.sets import layout, set_digest, set_store
from headwater.stores.redis.sets.layout import BucketKind, SetKeys
from headwater.stores.redis.sets.replacement import ABANDONED_AFTER_S, VALUES_PER_FILL
from headwater.stores.redis.sets.set_store import VALUES_PER_WRITE, RedisSetStore
from tests.support.sets import TARGET, everything, listing, numbers
from tests.support.valkey import ValkeyServer


class TestRedis:
    def test_nothing_is_left_behind(self, valkey_url: str) -> None:
        client = connect(valkey_url)
        store = RedisSetStore(client)
        store.add(TARGET, numbers(0, 500))
        store.replace(TARGET, numbers(400, 900))
        with pytest.raises(ZeroDivisionError):
            store.replace(TARGET, (str(1 // (3 - i)) for i in range(9)))
        tag = "{fs:" + TARGET.id + "}"
        with redis.Redis.from_url(valkey_url) as raw:
            generations = {key.split(b":")[2] for key in raw.keys(f"{tag}:*:b:*")}
            assert len(generations) == 1
            assert raw.hlen(f"{tag}:staging") == 0
            assert raw.bitcount(f"{tag}:{generations.pop().decode()}:nz") == len(raw.keys(f"{tag}:*:b:*"))
            store.drop(TARGET)
            assert raw.keys("*") == []
        client.close()

    def test_a_killed_replace_is_swept_after_an_hour(self, valkey_url: str) -> None:
        client = connect(valkey_url)
        now = [1_000_000.0]
        store = RedisSetStore(client, clock=lambda: now[0])
        store.add(TARGET, ["kept"])

        def killed() -> Iterator[str]:
            yield from numbers(0, 100_000)
            now[0] += 3700
            store.replace(TARGET, ["newer"])
            yield "never there"

        with pytest.raises(RedisUnavailable, match="made no progress for an hour"):
            store.replace(TARGET, killed())
        assert everything(store, TARGET) == ["newer"]
        with redis.Redis.from_url(valkey_url) as raw:
            assert len(raw.keys("*:b:*")) == 1
        client.close()

    def test_another_process_replaces(self, valkey_url: str) -> None:
        client = connect(valkey_url)
        here, there = RedisSetStore(client), RedisSetStore(client)
        here.add(TARGET, ["a"])
        there.replace(TARGET, ["b"])
        assert here.add(TARGET, ["c"]).count == 2
        assert sorted(everything(there, TARGET)) == ["b", "c"]
        there.replace(TARGET, ["d"])
        assert here.contains_many(TARGET, ["c", "d"]) == [False, True]
        there.drop(TARGET)
        there.add(TARGET, ["e"])
        assert everything(here, TARGET) == ["e"]
        assert here.remove(TARGET, ["e"]).changed == 1
        client.close()

    @pytest.mark.parametrize("kind", ["set", "hash"])
    def test_the_digest_of_a_set_without_one_is_computed_and_then_kept_up_to_date(
        self, valkey_url: str, kind: BucketKind
    ) -> None:
        client = connect(valkey_url)
        store = RedisSetStore(client, kind)
        store.add(TARGET, [*numbers(0, 3_000), "text"])
        metadata = "{fs:" + TARGET.id + "}:m"
        with redis.Redis.from_url(valkey_url) as raw:
            raw.hdel(metadata, "digest")
            store.remove(TARGET, ["text"])
            assert not raw.hexists(metadata, "digest")
            assert store.summary(TARGET).digest == set_digest.of_values(numbers(0, 3_000))
            raw.hincrby(metadata, "ver", 1)  # as by a process that does not know the digest
            assert store.summary(TARGET).digest == set_digest.of_values(numbers(0, 3_000))
            store.add(TARGET, ["more"])
            assert raw.hget(metadata, "digest").startswith(b"%d " % store.count(TARGET).version)
        assert store.summary(TARGET).digest == set_digest.of_values([*numbers(0, 3_000), "more"])
        client.close()

    def test_the_log_has_the_writes(self, valkey_url: str) -> None:
        client = connect(valkey_url)
        store = RedisSetStore(client)
        added = store.add(TARGET, numbers(0, 3)).version
        removed = store.remove(TARGET, numbers(0, 1)).version
        key = "{fs:" + TARGET.id + "}:log"
        with redis.Redis.from_url(valkey_url) as raw:
            entries = raw.xrange(key)
            assert [entry_id for entry_id, _ in entries] == [b"%d-0" % added, b"%d-0" % removed]
            assert len(entries[0][1][b"a"]) == 24
            reset = store.replace(TARGET, ["x"]).version
            [(entry_id, entry)] = raw.xrange(key)
            assert (entry_id, entry.pop(b"s")) == (b"%d-0" % reset, raw.hget(key.replace(":log", ":m"), "stamp"))
            assert entry == {b"reset": b""}
        client.close()


class LosesAnswers(Client):
    """A client that loses the reply of every `lose`-th script, which the server has run."""

    lose = 0

    def run(self, script: Script, keys: Sequence[Argument], args: Sequence[Argument]) -> Any:
        answer = super().run(script, keys, args)
        self.lose -= 1
        if self.lose == 0:
            raise RedisUnavailable("the answer was lost")
        return answer


class TestLostAnswer:
    @pytest.fixture
    def client(self, valkey_url: str) -> Iterator[LosesAnswers]:
        with redis.Redis.from_url(valkey_url, protocol=2) as server:
            yield LosesAnswers(server)

    def test_of_an_add(self, client: LosesAnswers) -> None:
        store = RedisSetStore(client)
        store.add(TARGET, ["a"])
        client.lose = 2
        with pytest.raises(RedisUnavailable):
            store.add(TARGET, numbers(0, 3000))
        again = store.add(TARGET, numbers(0, 3000))
        assert (again.changed, again.count) == (3000 - 2 * VALUES_PER_WRITE, 3001)
        assert len(everything(store, TARGET)) == 3001

    @pytest.mark.parametrize("lose", range(1, 8))
    def test_of_a_replace(self, client: LosesAnswers, lose: int) -> None:
        old, new = numbers(0, 10), numbers(10, 30)
        store = RedisSetStore(client)
        store.add(TARGET, old)
        client.lose = lose
        with suppress(RedisUnavailable):
            store.replace(TARGET, iter(new))
        client.lose = 0
        found = sorted(everything(store, TARGET))
        assert found in (old, new)
        assert store.count(TARGET).size == len(found)
        store.drop(TARGET)
        assert client.call("KEYS", "*") == []


class TestRestart:
    def test_between_calls(self, valkey_server: ValkeyServer) -> None:
        client = connect(valkey_server.url)
        store = RedisSetStore(client)
        store.add(TARGET, ["a"])
        valkey_server.kill()
        with pytest.raises(RedisUnavailable, match="does not answer"):
            store.contains_many(TARGET, ["a"])
        valkey_server.start()
        assert store.contains_many(TARGET, ["a", "b"]) == [True, False]
        assert store.add(TARGET, ["b"]).count == 2
        client.close()

    def test_files_lost(self, valkey_server: ValkeyServer) -> None:
        client = connect(valkey_server.url)
        store = RedisSetStore(client)
        store.add(TARGET, ["a"])
        with redis.Redis.from_url(valkey_server.url) as raw:
            raw.flushall()
        assert store.contains_many(TARGET, ["a"]) == [False]
        store.add(TARGET, ["b"])
        assert everything(store, TARGET) == ["b"]
        client.close()

    def test_listing_is_exact_over_two_kills(self, valkey_server: ValkeyServer) -> None:
        client = connect(valkey_server.url)
        store = RedisSetStore(client)
        stable, others, rng = numbers(0, 40_000), numbers(100_000, 102_000), random.Random(7)
        store.replace(TARGET, stable + others[:1000])
        found: list[str] = []
        cursor = None
        for page_number in range(1000):
            page = store.page(TARGET, cursor, 1777)
            assert len(page.values) == 1777 or page.cursor is None
            found += page.values
            cursor = page.cursor
            if cursor is None:
                break
            store.remove(TARGET, rng.sample(others, 20))
            store.add(TARGET, rng.sample(others, 20))
            if page_number in (5, 15):
                valkey_server.kill()
                valkey_server.start()
        assert sorted(value for value in found if value <= stable[-1]) == stable
        client.close()


class TestPages:
    def test_pages_of_several_round_trips_end_with_the_set(
        self, valkey_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(layout, "BITS", 8)
        monkeypatch.setattr(set_store, "VALUES_PER_READ", 200)
        client = connect(valkey_url)
        store = RedisSetStore(client)
        store.replace(TARGET, numbers(0, 10_000))
        for count in range(500, 2000, 37):
            *full, last = listing(store, TARGET, count)
            assert {len(page) for page in full} == {count}
            assert len(full) * count + len(last) == 10_000
        client.close()


class Between(Client):
    """A client that calls a function before the first values of a replacement are written."""

    def __init__(self, server: redis.Redis, happens: Callable[[], None]) -> None:
        super().__init__(server)
        self._happens = [happens]

    def stream(self, key: Argument, parts: Iterable[EncodedCommands]) -> Iterator[list[Any]]:
        while self._happens:
            self._happens.pop()()
        return super().stream(key, parts)


class TestDropUnderAReplace:
    @pytest.mark.parametrize("values", [10, VALUES_PER_FILL + 10])
    def test_nothing_is_left(self, valkey_url: str, values: int) -> None:
        client = connect(valkey_url)
        store = RedisSetStore(client)
        store.add(TARGET, ["a"])
        with redis.Redis.from_url(valkey_url, protocol=2) as server:
            replacing = RedisSetStore(Between(server, lambda: store.drop(TARGET)))
            with pytest.raises(UploadAborted):
                replacing.replace(TARGET, numbers(0, values))
        assert client.call("KEYS", "*") == []
        client.close()


class AtUnlink(Client):
    """A client that calls a function before buckets are deleted for the first time."""

    def __init__(self, server: redis.Redis, happens: Callable[[], object]) -> None:
        super().__init__(server)
        self._happens = [happens]

    def call(self, *command: Argument) -> Any:
        while command[0] == "UNLINK" and self._happens:
            self._happens.pop()()
        return super().call(*command)


class TestAddUnderADrop:
    def test_is_lost_or_makes_a_set_of_its_own(self, valkey_url: str) -> None:
        client = connect(valkey_url)
        store = RedisSetStore(client)
        store.add(TARGET, numbers(0, 100))
        with redis.Redis.from_url(valkey_url, protocol=2) as server:
            dropping = RedisSetStore(AtUnlink(server, lambda: store.add(TARGET, ["late"])))
            dropping.drop(TARGET)
        assert everything(store, TARGET) == ["late"]
        store.drop(TARGET)
        assert client.call("KEYS", "*") == []
        client.close()

    def test_a_drop_that_is_killed_is_finished_by_the_sweep(self, valkey_url: str) -> None:
        client = connect(valkey_url)
        store = RedisSetStore(client)
        store.add(TARGET, numbers(0, 100))

        def killed() -> None:
            raise KeyboardInterrupt

        with redis.Redis.from_url(valkey_url, protocol=2) as server, pytest.raises(KeyboardInterrupt):
            RedisSetStore(AtUnlink(server, killed)).drop(TARGET)
        assert store.contains_many(TARGET, numbers(0, 1)) == [False]
        RedisSetStore(client, clock=lambda: time.time() + 2 * ABANDONED_AFTER_S).sweep()
        assert client.call("KEYS", "*") == []
        client.close()


class TestLostWrites:
    def test_two_replaces_never_fill_one_generation(self, valkey_url: str) -> None:
        client = connect(valkey_url)
        store = RedisSetStore(client)
        store.add(TARGET, ["a"])
        keys = SetKeys.of(TARGET)
        before = client.call("DUMP", keys.metadata)
        second_has_begun, first_has_ended = threading.Event(), threading.Event()

        def second() -> Iterator[str]:
            second_has_begun.set()
            assert first_has_ended.wait(30)
            yield from numbers(20, 30)

        def first() -> Iterator[str]:
            client.pipeline([("DEL", keys.staging), ("RESTORE", keys.metadata, 0, before, "REPLACE")])
            waiting.append(pool.submit(store.replace, TARGET, second()))
            assert second_has_begun.wait(30)
            yield from numbers(0, 10)

        waiting: list[Future[SetWriteResult]] = []
        with ThreadPoolExecutor(1) as pool:
            with pytest.raises(UploadAborted):
                store.replace(TARGET, first())
            first_has_ended.set()
            assert waiting[0].result().count == 10
        assert sorted(everything(store, TARGET)) == numbers(20, 30)
        client.close()


class TestDropsAtOnce:
    """The API and the controller may both remove a deleted configuration's sets."""

    def test_all_of_them_succeed_and_nothing_is_left(self, valkey_url: str) -> None:
        clients = [connect(valkey_url) for _ in range(6)]
        stores = [RedisSetStore(client) for client in clients]
        for _ in range(10):
            for store in stores:
                store.add(TARGET, numbers(0, 50))
            with ThreadPoolExecutor(len(stores)) as pool:
                for done in [pool.submit(store.drop, TARGET) for store in stores]:
                    done.result()
            assert [store.count(TARGET).size for store in stores] == [0] * len(stores)
            assert clients[0].call("DBSIZE") == 0
        for client in clients:
            client.close()
