"""Sets in a cluster of three real servers, in addition to the suite of every SetStore."""

from typing import Any

import redis
from redis.crc import key_slot

from headwater.model.value_sets import dataset_set
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.lookup import RedisSetLookup
from headwater.stores.redis.sets.set_store import RedisSetStore
from tests.support.sets import everything, numbers

TARGETS = [dataset_set(f"d{number}") for number in range(12)]


def test_sets_are_spread_over_all_servers(cluster_ports: list[int], cluster_url: str) -> None:
    client = connect(cluster_url)
    store, lookup = RedisSetStore(client), RedisSetLookup(client)
    for number, target in enumerate(TARGETS):
        store.replace(target, numbers(number, number + 300))
        assert store.add(target, ["a"]).count == 301
        assert lookup.contains_many(target, ["a", "b", *numbers(number, number + 300)]) == [True, False] + [True] * 300
    lookup.wait()
    for number, target in enumerate(TARGETS):
        assert lookup.contains_many(target, ["a", "b"]) == [True, False]
        assert len(everything(store, target)) == 301
        assert store.remove(target, numbers(number, number + 1)).changed == 1
    for port in cluster_ports:
        with redis.Redis(port=port) as node:
            assert node.dbsize() > 300
    for target in TARGETS:
        store.drop(target)
    for port in cluster_ports:
        with redis.Redis(port=port) as node:
            assert node.dbsize() == 0
    lookup.close()
    client.close()


def test_a_slot_that_moved_is_followed(cluster_ports: list[int], cluster_url: str) -> None:
    client = connect(cluster_url)
    store = RedisSetStore(client)
    target = TARGETS[0]
    slot = key_slot(f"{{ds:{target.id}}}".encode())
    store.add(target, ["a"])
    store.drop(target)
    nodes: list[Any] = [redis.Redis(port=port) for port in cluster_ports]
    owner = next(at for at in range(3) if 16_384 * at // 3 <= slot < 16_384 * (at + 1) // 3)
    other = (owner + 1) % 3
    for to in (other, owner):
        node_id = nodes[to].execute_command("CLUSTER", "MYID").decode()
        for node in [nodes[to], *nodes]:
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id)
        assert store.add(target, ["b"]).count == 1
        assert store.contains_many(target, ["a", "b"]) == [False, True]
        assert store.replace(target, ["c"]).count == 1
        store.drop(target)
    for node in nodes:
        node.close()
    client.close()
