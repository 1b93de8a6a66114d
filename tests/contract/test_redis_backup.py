"""Backups of a Valkey are restored into another one.

Some of them were made during writes.
"""

import base64
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.model.price.archive import TimeBucket
from headwater.model.price.band import hour_of
from headwater.model.price.tick import partition_of
from headwater.model.quota import Reservation
from headwater.model.value_sets import SetId, dataset_set_id, filter_set_id
from headwater.stores.protocols.prices import PriceWrite
from headwater.stores.redis import backup
from headwater.stores.redis.client import Client, connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.prices import RedisPrices
from headwater.stores.redis.reservations import RedisReservations
from headwater.stores.redis.sets.pending_sets import RedisPendingSets
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.stores.redis.tail_slots import RedisTailSlots
from tests.support.sql import T0
from tests.support.valkey import ValkeyServer

VALUES = [f"0x{number:040x}" for number in range(25_000)]
FILTER, DATASET = filter_set_id("f1", "t1"), dataset_set_id("d1")


@pytest.fixture
def source(valkey_url: str) -> Client:
    return connect(valkey_url)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Client]:
    server = ValkeyServer(tmp_path)
    server.start()
    yield connect(server.url)
    server.stop()


def all_values(client: Client, of: SetId) -> set[str]:
    store, found, cursor = RedisSetStore(client), set[str](), None
    while True:
        page = store.page(of, cursor, 10_000)
        found.update(page.values)
        if (cursor := page.cursor) is None:
            return found


def test_everything_arrives(source: Client, target: Client) -> None:
    RedisSetStore(source).replace(FILTER, VALUES)
    RedisSetStore(source).add(DATASET, ["größe"])
    RedisDatasetNames(source).put("ann", "wallets", "d1")
    source.call("SET", "{px:3}:t:base:0xaa", b"\x00state\xff", "PX", 60_000_000)
    source.call("SET", "somebody-elses", "x")
    loaded = backup.load(target, backup.dump(source))
    assert (loaded.begun_sets, loaded.unreadable) == (2, 0)
    assert all_values(target, FILTER) == set(VALUES)
    assert RedisSetStore(target).count(FILTER).size == len(VALUES)
    assert all_values(target, DATASET) == {"größe"}
    assert RedisDatasetNames(target).resolve("ann", ["wallets"]) == ["d1"]
    assert target.call("GET", "{px:3}:t:base:0xaa") == b"\x00state\xff"
    assert 0 < target.call("PTTL", "{px:3}:t:base:0xaa") <= 60_000_000
    assert target.call("GET", "somebody-elses") is None


def test_a_set_that_is_replaced_meanwhile_is_never_a_mix(source: Client, target: Client) -> None:
    store = RedisSetStore(source)
    store.replace(FILTER, VALUES)
    entries, replaced = backup.dump(source), False
    taken = []
    for entry in entries:
        taken.append(entry)
        if "values" in entry and not replaced:
            store.replace(FILTER, ["new"])
            replaced = True
    assert replaced
    loaded = backup.load(target, taken)
    assert all_values(target, FILTER) == {"new"}
    assert loaded.begun_sets == 2


def test_a_set_with_concurrent_adds_has_all_earlier_values(source: Client, target: Client) -> None:
    store, stop = RedisSetStore(source), threading.Event()
    store.replace(FILTER, VALUES)

    def write() -> None:
        number = 0
        while not stop.is_set():
            store.add(FILTER, [f"later-{number}"])
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        entries = list(backup.dump(source))
    finally:
        stop.set()
        thread.join()
    backup.load(target, entries)
    assert set(VALUES) <= all_values(target, FILTER)


def test_pending_sets_arrive_and_reservations_do_not(source: Client, target: Client) -> None:
    RedisPendingSets(source).add([FILTER], T0)
    RedisReservations(source).put(Reservation("r1", "ann", FILTER, 7, 0.0))
    loaded = backup.load(target, backup.dump(source))
    assert (loaded.begun_sets, loaded.keys) == (0, 1)
    assert RedisPendingSets(target).added_before(T0 + timedelta(seconds=1)) == [FILTER]
    assert RedisReservations(target).all() == []


def test_ticks_that_move_meanwhile_are_in_the_dump(source: Client, target: Client) -> None:
    token, bucket = b"base:0xaa", TimeBucket(hour_of(int(time.time() * 1000)))
    partition, prices = partition_of(token), RedisPrices(source)
    prices.acquire_partitions("worker", "ticks", [partition])

    def write(kind: str, value: bytes, **fields: Any) -> None:
        empty: dict[str, Any] = {"states": {}, "archived": {}, "tails": {}}
        prices.write(partition, "worker", PriceWrite(1, **(empty | {kind: {token: value}} | fields)))

    write("tails", b"tick", unsettled=[token])
    taken = []
    for entry in backup.dump(source):
        taken.append(entry)
        key = base64.b64decode(entry["key"])
        if b":unsettled" in key:
            write("tails", b"", settled=[token])
        elif b":n:" in key:
            write("states", b"tick")
        elif b":t:" in key:
            write("states", b"", archived={(token, bucket): b"tick"})
    backup.load(target, taken)
    [(state, tail)] = RedisPrices(target).read(partition, [token])
    assert (tail, state, RedisPrices(target).read_archived([(token, bucket)])) == (b"tick", b"tick", [b"tick"])
    assert [*RedisPrices(target).unsettled(partition)] == [token]


def test_lists_and_slots_are_data_and_are_cleared(target: Client) -> None:
    for put in (
        lambda: RedisPendingSets(target).add([FILTER], T0),
        lambda: RedisReservations(target).put(Reservation("r1", "ann", FILTER, 7, 0.0)),
        lambda: RedisTailSlots(target).acquire("ann", ["1"], total=1, per_owner=1),
    ):
        put()  # type: ignore[no-untyped-call]  # redis-py has no types here
        assert not backup.is_empty(target)
        backup.clear(target)
        assert list(target.scan("*")) == []


def test_clearing_keeps_keys_of_other_programs(target: Client) -> None:
    RedisSetStore(target).replace(FILTER, VALUES)
    target.call("SET", "somebody-elses", "x")
    assert not backup.is_empty(target)
    backup.clear(target)
    assert backup.is_empty(target)
    assert list(target.scan("*")) == [b"somebody-elses"]


def test_unreadable_keys_are_counted(target: Client) -> None:
    loaded = backup.load(target, [{"key": "e3B4fQ==", "dump": "AAAA", "ttl_ms": 0}])
    assert (loaded.keys, loaded.unreadable) == (0, 1)
