"""Rate limits with a real Valkey."""

from contextlib import closing

from anyio.from_thread import start_blocking_portal

from headwater.services.rate_limits import RateLimits
from headwater.stores.redis.client import connect
from headwater.stores.redis.token_buckets import RedisTokenBuckets
from tests.unit.api.installation import FLOW, Installation


def test_five_concurrent_large_uploads_succeed(valkey_url: str) -> None:
    """The smallest possible rate limit allows five concurrent uploads."""
    with closing(connect(valkey_url)) as client, start_blocking_portal() as portal:
        headwater = Installation(portal)
        with headwater.serving(rate_limits=RateLimits(RedisTokenBuckets(client), 0.001, 1)):
            alice = headwater.user("alice")
            dataset = alice.post(f"{FLOW}/datasets", {"name": "a"}).json()["id"]
            bodies = [{"values": [f"{part}-{number}" for number in range(250_000)]} for part in range(5)]
            sent = [alice.start("POST", f"{FLOW}/datasets/{dataset}/entries", json=body) for body in bodies]
            assert [upload.result().json()["count"] for upload in sent] == [250_000] * 5
            assert alice.get(FLOW).status_code == 429
