"""Limits how many invalid API keys one client address may send.

Each process has a token bucket per address.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headwater.api.server.client_addresses import client_key

MAX_ADDRESSES = 10_000
"""How many addresses have a bucket; the least recently used bucket is dropped first."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class InvalidKeyLimiter:
    """Bounds the database queries that invalid keys of unknown clients can cause.

    A check takes a token, and returns it unless it finds that the key is invalid.

    per_minute: The size of a bucket, and the number of tokens that are added in a minute; 0 means no limit.
    """

    def __init__(self, per_minute: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._size = per_minute
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, address: str) -> int:
        """Take a token for a check.

        Returns 0 when a token was available, otherwise the seconds until one is.
        """
        if not self._size:
            return 0
        bucket = self._filled(client_key(address))
        if bucket.tokens < 1:
            return 1 + int((1 - bucket.tokens) * 60 / self._size)
        bucket.tokens -= 1
        return 0

    def give_back(self, address: str) -> None:
        """Return the token of a check that found the key valid, or that could not be made."""
        if self._size:
            bucket = self._filled(client_key(address))
            bucket.tokens = min(self._size, bucket.tokens + 1)

    def _filled(self, group: str) -> _Bucket:
        now = self._monotonic()
        bucket = self._buckets.setdefault(group, _Bucket(self._size, now))
        bucket.tokens = min(self._size, bucket.tokens + (now - bucket.filled_at) * self._size / 60)
        bucket.filled_at = now
        self._buckets.move_to_end(group)
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return bucket
