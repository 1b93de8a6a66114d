"""Token buckets in Valkey or Redis: `{rl:NAME}`, a hash of its own slot that expires when it is full again."""

from headwater.stores.base import TokenResult
from headwater.stores.redis.client import Client, Script

_TAKE = Script.load("take_token")


class RedisTokenBuckets:
    """TokenBuckets in Valkey or Redis."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def take(self, name: str, rate: float, size: int) -> TokenResult:
        taken, millionths = self._client.run(_TAKE, [f"{{rl:{name}}}"], [repr(rate), size])
        return TokenResult(bool(taken), millionths / 1e6)
