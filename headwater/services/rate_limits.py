"""Rate limits of API keys: token buckets in Valkey or Redis."""

import math
from dataclasses import dataclass

from headwater.stores.protocols.token_buckets import TokenBuckets

CONCURRENT_UPLOADS = 5
"""The API documentation recommends this many concurrent uploads, so a burst of this size is always allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDecision:
    """Whether one request is allowed, and the state of its bucket.

    Attributes:
        limit: The number of requests that are allowed per `window_s` seconds.
    """

    allowed: bool
    remaining: int
    limit: int
    window_s: int
    retry_after_s: int


class RateLimits:
    """Limits the requests of each API key.

    An API key has two token buckets: one for uploads and one for all other requests.

    Args:
        rate: The number of requests per second.
        burst: The size of a bucket, which is the number of requests that an API key may send at once after a pause.
    """

    def __init__(self, buckets: TokenBuckets, rate: float, burst: int) -> None:
        self._buckets = buckets
        self._rate = rate
        self._burst = burst

    def take(self, key_id: str, *, upload: bool) -> RateDecision:
        """Count one request of an API key. May block. Raises RedisUnavailable."""
        limit = max(self._burst, CONCURRENT_UPLOADS) if upload else self._burst
        bucket = self._buckets.take(f"{key_id}:{'uploads' if upload else 'calls'}", self._rate, limit)
        wait_s = max(1, math.ceil((1 - bucket.tokens) / self._rate))
        return RateDecision(
            allowed=bucket.taken,
            remaining=math.floor(bucket.tokens),
            limit=limit,
            window_s=max(1, math.ceil(limit / self._rate)),
            retry_after_s=wait_s,
        )
