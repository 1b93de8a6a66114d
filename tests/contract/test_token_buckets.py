"""The contract of TokenBuckets."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import redis

from headwater.errors import RedisUnavailable
from headwater.stores.protocols.token_buckets import TokenBuckets
from headwater.stores.redis.client import connect
from headwater.stores.redis.token_buckets import RedisTokenBuckets
from tests.support.memory.token_buckets import MemoryBuckets

SLOWLY = 1e-6
"""This rate, in tokens per second, adds no token during a test."""


@pytest.fixture(params=["memory", "valkey"])
def buckets(request: pytest.FixtureRequest) -> Iterator[TokenBuckets]:
    if request.param == "memory":
        yield MemoryBuckets(time.monotonic)
        return
    with closing(connect(request.getfixturevalue("valkey_url"))) as client:
        yield RedisTokenBuckets(client)


def test_a_full_bucket_has_its_size_in_tokens(buckets: TokenBuckets) -> None:
    taken = [buckets.take("a", SLOWLY, 3) for _ in range(5)]
    assert [t.taken for t in taken] == [True, True, True, False, False]
    assert [round(t.tokens, 3) for t in taken] == [2, 1, 0, 0, 0]


def test_buckets_are_independent(buckets: TokenBuckets) -> None:
    assert [buckets.take(name, SLOWLY, 1).taken for name in ("a", "b", "a", "b")] == [True, True, False, False]


def test_a_bucket_refills_up_to_its_size(buckets: TokenBuckets) -> None:
    for _ in range(3):
        buckets.take("a", SLOWLY, 3)
    while not (taken := buckets.take("a", 1e6, 3)).taken:
        pass
    assert taken.tokens <= 2
    assert buckets.take("a", 1e9, 3).tokens <= 2


def test_a_smaller_size_applies_immediately(buckets: TokenBuckets) -> None:
    buckets.take("a", SLOWLY, 100)
    assert buckets.take("a", SLOWLY, 5).tokens == pytest.approx(4, abs=0.01)


def test_concurrent_takes_never_exceed_the_tokens(buckets: TokenBuckets) -> None:
    with ThreadPoolExecutor(16) as pool:
        taken = list(pool.map(lambda _: buckets.take("a", SLOWLY, 20).taken, range(64)))
    assert sum(taken) == 20


def test_all_keys_expire_and_share_a_slot(valkey_url: str) -> None:
    with closing(connect(valkey_url)) as client, redis.Redis.from_url(valkey_url) as server:
        RedisTokenBuckets(client).take("k1:calls", 10.0, 20)
        assert list(server.keys("*")) == [b"{rl:k1:calls}"]
        assert 0 < server.pttl("{rl:k1:calls}") <= 3000


def test_an_unavailable_server(tmp_path: Path) -> None:
    with closing(connect(f"unix://{tmp_path}/none.sock")) as client, pytest.raises(RedisUnavailable):
        RedisTokenBuckets(client).take("a", 1.0, 1)
