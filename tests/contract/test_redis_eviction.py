"""On a Valkey that evicts keys, a lookup raises an error rather than return a wrong answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from headwater.app.data_directory import DataDirectory
from headwater.app.endpoints import Endpoints
from headwater.errors import RedisEvicts, RedisUnavailable, SetupError
from headwater.model.value_sets import dataset_set_id
from headwater.settings import Settings
from headwater.stores.redis.client import connect
from headwater.stores.redis.eviction import CHECK_INTERVAL_S
from headwater.stores.redis.sets.lookup import RedisSetLookup
from headwater.stores.redis.sets.set_store import RedisSetStore
from tests.support.valkey import ValkeyServer

TARGET = dataset_set_id("watched")
VALUES = [f"0x{number:040x}" for number in range(150_000)]
MEMORY = "50mb"


@pytest.fixture
def admin(valkey_server: ValkeyServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_server.url) as client:
        yield client


def evict(admin: redis.Redis) -> None:
    """Fill the memory with other keys until keys are evicted."""
    admin.config_set("maxmemory-policy", "allkeys-lru")
    admin.config_set("maxmemory", 1 << 20)
    admin.set("filler", b"x" * (1 << 19))
    assert admin.info("stats")["evicted_keys"] > 0


def test_an_upload_to_a_server_that_may_evict_is_rejected(valkey_server: ValkeyServer, admin: redis.Redis) -> None:
    admin.config_set("maxmemory", MEMORY)
    admin.config_set("maxmemory-policy", "allkeys-lru")
    store = RedisSetStore(connect(valkey_server.url))
    with pytest.raises(RedisEvicts):
        store.replace(TARGET, VALUES)
    with pytest.raises(RedisEvicts):
        store.add(TARGET, VALUES[:10])
    assert admin.dbsize() == 0


def test_evicted_values_are_never_reported_as_missing(
    valkey_server: ValkeyServer, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect(valkey_server.url)
    store, lookup = RedisSetStore(client), RedisSetLookup(client)
    store.replace(TARGET, VALUES)
    assert all(lookup.contains_many(TARGET, VALUES[:500]))
    evict(admin)
    now = [client._guard._clock() + CHECK_INTERVAL_S]
    monkeypatch.setattr(client._guard, "_clock", lambda: now[0])
    for ask in (
        lambda: lookup.contains_many(TARGET, VALUES[:500]),
        lambda: store.contains_many(TARGET, VALUES[:5]),
        lambda: store.count(TARGET),
        lambda: store.page(TARGET, None, 100),
    ):
        with pytest.raises(RedisEvicts):
            ask()


def test_a_full_server_without_eviction_reports_it(valkey_server: ValkeyServer, admin: redis.Redis) -> None:
    store = RedisSetStore(connect(valkey_server.url))
    store.replace(TARGET, VALUES[:1000])
    admin.config_set("maxmemory", 1 << 20)
    with pytest.raises(RedisUnavailable, match="out of memory"):
        store.replace(TARGET, VALUES)
    assert store.count(TARGET).size == 1000
    assert all(store.contains_many(TARGET, VALUES[:1000]))


def test_processes_do_not_start_on_a_server_that_may_evict(
    valkey_server: ValkeyServer, admin: redis.Redis, tmp_path: Path
) -> None:
    settings = Settings.model_validate({"data_dir": tmp_path, "redis_url": valkey_server.url})
    endpoints = Endpoints(settings, DataDirectory(tmp_path))
    endpoints.connect_redis().close()
    admin.config_set("maxmemory-policy", "allkeys-random")
    with pytest.raises(SetupError, match="Set its maxmemory-policy to noeviction"):
        endpoints.connect_redis()
    valkey_server.stop()
    endpoints.connect_redis().close()
