"""The filter works with a real Valkey.

Writes take effect at once, and the filter waits while the server is unavailable.
"""

import json
from collections.abc import Iterator

import pytest

from headwater.errors import RedisUnavailable
from headwater.model.record import RecordBatch
from headwater.model.transforms.redis_set_filter import RedisSetFilterTransform
from headwater.model.value_sets import filter_set_id
from headwater.stores.redis.client import Client, connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from headwater.stores.redis.sets.set_store import RedisSetStore
from headwater.transforms.base import TransformContext
from headwater.transforms.redis_set_filter import RedisSetFilter, build
from tests.support.valkey import ValkeyServer

TARGET = filter_set_id("c1", "t1")
WALLETS = [f"0x{number:040x}" for number in range(400)]


@pytest.fixture
def client(valkey_server: ValkeyServer) -> Iterator[Client]:
    client = connect(valkey_server.url)
    yield client
    client.close()


@pytest.fixture
def filter_(client: Client) -> RedisSetFilter:
    expression = "root = [this.from_address, this.to_address]"
    config = RedisSetFilterTransform(uid="t1", type="redis_set_filter", filter_expr=expression)
    resources = TransformContext("c1", "ann", RedisSetStore(client), RedisDatasetNames(client))
    return build(config, resources)


def batch() -> RecordBatch:
    """Return 200 transfers from each even wallet to the next odd wallet, in mixed case."""
    pairs = zip(WALLETS[::2], WALLETS[1::2], strict=True)
    values: list[bytes | None] = [
        json.dumps({"from_address": a.upper().replace("X", "x"), "to_address": b}).encode() for a, b in pairs
    ]
    numbers = list(range(len(values)))
    return RecordBatch.of("topic", values, [None] * len(values), numbers, [0] * len(values), numbers, [0] * len(values))


def passed(filter_: RedisSetFilter) -> list[int]:
    return filter_.start(batch()).result().output.offsets.tolist()


def test_every_write_shows_in_the_next_batch(filter_: RedisSetFilter, client: Client) -> None:
    writer = RedisSetStore(client)
    assert passed(filter_) == []
    writer.add(TARGET, [WALLETS[0], WALLETS[3]])
    assert passed(filter_) == [0, 1]
    writer.remove(TARGET, [WALLETS[0]])
    assert passed(filter_) == [1]
    writer.replace(TARGET, WALLETS[100:])
    assert passed(filter_) == list(range(50, 200))
    writer.replace(TARGET, [])
    assert passed(filter_) == []


def test_the_filter_waits_while_the_server_is_unavailable(
    filter_: RedisSetFilter, client: Client, valkey_server: ValkeyServer
) -> None:
    RedisSetStore(client).add(TARGET, WALLETS[:2])
    assert passed(filter_) == [0]
    valkey_server.kill()
    pending = filter_.start(batch())
    with pytest.raises(RedisUnavailable):
        pending.result()
    valkey_server.start()
    assert pending.result().output.offsets.tolist() == [0]
