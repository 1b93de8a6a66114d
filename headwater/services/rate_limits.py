"""Rate limits of API keys: token buckets in the set store."""

import math
from dataclasses import dataclass

from headwater.stores.protocols.token_buckets import TokenBuckets

CONCURRENT_UPLOADS = 5
"""The API documentation recommends this many concurrent uploads, so a burst of this size is always allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDecision:
    """Whether one request is allowed, and the state of its bucket.

    Attributes:
        size: Requests that are allowed per window_s.
    """

    allowed: bool
    remaining: int
    size: int
    window_s: int
    retry_after_s: int


class RateLimits:
    """Each API key has two token buckets, one for uploads and one for all other requests.

    rate: Requests per second.
    burst: How many requests are allowed at once.
    """

    def __init__(self, buckets: TokenBuckets, rate: float, burst: int) -> None:
        self._buckets = buckets
        self._rate = rate
        self._burst = burst

    def take(self, key_id: str, *, upload: bool) -> RateDecision:
        """Count one request. The call may block and raises RedisUnavailable."""
        size = max(self._burst, CONCURRENT_UPLOADS) if upload else self._burst
        left = self._buckets.take(f"{key_id}:{'uploads' if upload else 'calls'}", self._rate, size)
        wait_s = max(1, math.ceil((1 - left.tokens) / self._rate))
        return RateDecision(
            allowed=left.taken,
            remaining=math.floor(left.tokens),
            size=size,
            window_s=max(1, math.ceil(size / self._rate)),
            retry_after_s=wait_s,
        )
