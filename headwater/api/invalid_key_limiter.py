"""Limits how many invalid API keys each client address may send."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headwater.api.server.client_addresses import client_key

MAX_BUCKETS = 10_000
"""When there are more buckets, the least recently used bucket is dropped."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    refilled_at: float


class InvalidKeyLimiter:
    """Bounds the database queries that clients with invalid keys can cause.

    Each client has a token bucket in each API process. A check of a key takes a token, and gives it back unless the key
    is invalid.

    Args:
        per_minute: The size of a bucket, and the number of tokens that are added in a minute; 0 means no limit.
        monotonic: Returns the seconds of a clock that never goes back.
    """

    def __init__(self, per_minute: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._size = per_minute
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, address: str) -> int:
        """Take a token for a check of a key.

        Returns 0 when a token was available, otherwise the number of seconds until a token is available.
        """
        if not self._size:
            return 0
        bucket = self._refilled_bucket(client_key(address))
        if bucket.tokens < 1:
            return 1 + int((1 - bucket.tokens) * 60 / self._size)
        bucket.tokens -= 1
        return 0

    def give_back(self, address: str) -> None:
        """Give back the token of a check that found the key valid, or that could not be made."""
        if self._size:
            bucket = self._refilled_bucket(client_key(address))
            bucket.tokens = min(self._size, bucket.tokens + 1)

    def _refilled_bucket(self, client: str) -> _Bucket:
        now = self._monotonic()
        bucket = self._buckets.setdefault(client, _Bucket(self._size, now))
        bucket.tokens = min(self._size, bucket.tokens + (now - bucket.refilled_at) * self._size / 60)
        bucket.refilled_at = now
        self._buckets.move_to_end(client)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket
