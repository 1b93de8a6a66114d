"""How many requests a key may send."""

import math
from dataclasses import dataclass

from headwater.stores.base import TokenBuckets

UPLOADS_AT_ONCE = 5
"""What the interface recommends for large datasets: so many always pass."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What became of one request, and what is left. size and window_s: so many requests in so many seconds."""

    allowed: bool
    remaining: int
    size: int
    window_s: int
    retry_after_s: int


class RateLimits:
    """One bucket per key for its uploads and one for all else: neither uses up the other's.

    rate: requests a second; burst: how many at once.
    """

    def __init__(self, buckets: TokenBuckets, rate: float, burst: int) -> None:
        self._buckets = buckets
        self._rate = rate
        self._burst = burst

    def take(self, key_id: str, *, upload: bool) -> Rate:
        """Count one request. May block; raises SetStoreUnavailable."""
        size = max(self._burst, UPLOADS_AT_ONCE) if upload else self._burst
        left = self._buckets.take(f"{key_id}:{'uploads' if upload else 'calls'}", self._rate, size)
        wait_s = max(1, math.ceil((1 - left.tokens) / self._rate))
        return Rate(left.taken, math.floor(left.tokens), size, max(1, math.ceil(size / self._rate)), wait_s)
