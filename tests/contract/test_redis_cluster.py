"""Sets in a cluster of three real servers, in addition to the suite of every SetStore."""

from typing import Any

import redis
from redis.crc import key_slot

from headwater.model.value_sets import dataset_set_id
from headwater.stores.redis.client import connect
from headwater.stores.redis.sets.lookup import RedisSetLookup
from headwater.stores.redis.sets.set_store import RedisSetStore
from tests.support.sets import everything, numbers

TARGETS = [dataset_set_id(f"d{number}") for number in range(12)]


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


def owner_of(slot: int) -> int:
    """Return the index of the server that owns a slot at first."""
    return next(index for index in range(3) if 16_384 * index // 3 <= slot < 16_384 * (index + 1) // 3)


def move(slot: int, new_owner: int, nodes: list[Any]) -> None:
    """Move an empty slot to another server."""
    node_id = nodes[new_owner].execute_command("CLUSTER", "MYID").decode()
    for node in [nodes[new_owner], *nodes]:
        node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id)


def test_pipelines_follow_one_slot_that_moved(cluster_ports: list[int], cluster_url: str) -> None:
    client = connect(cluster_url)
    nodes: list[Any] = [redis.Redis(port=port) for port in cluster_ports]
    keys = [f"{{{number}}}" for number in range(100)]
    first, second = [key for key in keys if owner_of(key_slot(key.encode())) == 0][:2]
    pipelines = [[("GET", first), ("TTL", first)], [("GET", second)]]
    for new_owner in (1, 0):
        assert client.pipelines(pipelines) == [[None, -2], [None]]
        move(key_slot(second.encode()), new_owner, nodes)
        assert client.pipelines(pipelines) == [[None, -2], [None]]
    for node in nodes:
        node.close()
    client.close()


def test_a_slot_that_moved_is_followed(cluster_ports: list[int], cluster_url: str) -> None:
    client = connect(cluster_url)
    store = RedisSetStore(client)
    target = TARGETS[0]
    slot = key_slot(f"{{ds:{target.id}}}".encode())
    store.add(target, ["a"])
    store.drop(target)
    nodes: list[Any] = [redis.Redis(port=port) for port in cluster_ports]
    owner = owner_of(slot)
    for new_owner in ((owner + 1) % 3, owner):
        move(slot, new_owner, nodes)
        assert store.add(target, ["b"]).count == 1
        assert store.contains_many(target, ["a", "b"]) == [False, True]
        assert store.replace(target, ["c"]).count == 1
        store.drop(target)
    for node in nodes:
        node.close()
    client.close()
