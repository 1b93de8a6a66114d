"""Token buckets for rate limits in Valkey or Redis.

Each bucket is a hash `{rl:NAME}`, which expires when the bucket is full again.

The library `limits` is not used, because it counts requests in windows and has no token buckets.
"""

from headwater.stores.protocols.token_buckets import TokenResult
from headwater.stores.redis.client import Client, Script

_TAKE = Script.load("take_token")


class RedisTokenBuckets:
    """TokenBuckets on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def take(self, name: str, rate: float, size: int) -> TokenResult:
        taken, millionths = self._client.run(_TAKE, [f"{{rl:{name}}}"], [repr(rate), size])
        return TokenResult(bool(taken), millionths / 1e6)
