"""How many keys that are not valid one address may send: a token bucket for each address, in this process."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headwater.api.server.client_addresses import group_of

MAX_ADDRESSES = 10_000
"""Addresses that are remembered; the one that was heard of least recently is forgotten first."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class FailedKeys:
    """Bounds the questions to the database that keys of unknown clients cause.

    A check takes a token, and gives it back unless it finds that the key is not valid.

    per_minute: the size of a bucket, and how many tokens it gets back in a minute; 0 means no limit.
    """

    def __init__(self, per_minute: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._size = per_minute
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, address: str) -> int:
        """Take a token for a check. 0 when there was one, else the seconds until there is."""
        if not self._size:
            return 0
        bucket = self._filled(group_of(address))
        if bucket.tokens < 1:
            return 1 + int((1 - bucket.tokens) * 60 / self._size)
        bucket.tokens -= 1
        return 0

    def give_back(self, address: str) -> None:
        """The key is valid, or could not be checked."""
        if self._size:
            bucket = self._filled(group_of(address))
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
