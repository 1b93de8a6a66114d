"""The contract of DatasetNameStore."""

from collections.abc import Iterator

import pytest

from headwater.stores.protocols.datasets import DatasetNameStore
from headwater.stores.redis.client import connect
from headwater.stores.redis.dataset_names import RedisDatasetNames
from tests.support.memory.sets import MemoryDatasetNames


@pytest.fixture(params=["memory", "valkey_url", "cluster_url"])
def names(request: pytest.FixtureRequest) -> Iterator[DatasetNameStore]:
    if request.param == "memory":
        yield MemoryDatasetNames()
        return
    client = connect(request.getfixturevalue(request.param))
    yield RedisDatasetNames(client)
    client.close()


class TestNames:
    def test_resolve(self, names: DatasetNameStore) -> None:
        names.put("ann", "wallets", "d1")
        names.put("ben", "wallets", "d2")
        assert names.resolve("ann", ["none", "wallets", "wallets"]) == [None, "d1", "d1"]
        assert names.resolve("ben", []) == []

    def test_discard_only_that_dataset(self, names: DatasetNameStore) -> None:
        names.put("ann", "wallets", "d1")
        names.put("ann", "wallets", "d2")
        names.discard("ann", "wallets", "d1")
        assert names.resolve("ann", ["wallets"]) == ["d2"]
        names.discard("ann", "wallets", "d2")
        assert names.resolve("ann", ["wallets"]) == [None]
