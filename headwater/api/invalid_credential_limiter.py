"""Limits how many invalid API keys or one-time codes each client address may send."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headwater.api.server.client_addresses import client_prefix

MAX_BUCKETS = 10_000
"""When there are more buckets, the least recently used bucket is dropped."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    refilled_at: float


class InvalidCredentialLimiter:
    """Bounds the database queries that clients with invalid credentials can cause.

    Each client has a token bucket in each API process. A check of a credential takes a token, and gives it back unless
    the credential is invalid.

    Args:
        per_minute: The size of a bucket, and the number of tokens that are added in a minute; 0 means no limit.
        clock: Returns monotonic seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, address: str) -> int:
        """Take a token for a check of a credential.

        Returns 0 when a token was available, otherwise the number of seconds until a token is available.
        """
        if not self._size:
            return 0
        bucket = self._refilled_bucket(client_prefix(address))
        if bucket.tokens < 1:
            return 1 + int((1 - bucket.tokens) * 60 / self._size)
        bucket.tokens -= 1
        return 0

    def give_back(self, address: str) -> None:
        """Give back the token when the credential is valid, or when it could not be checked."""
        if self._size:
            bucket = self._refilled_bucket(client_prefix(address))
            bucket.tokens = min(self._size, bucket.tokens + 1)

    def _refilled_bucket(self, client: str) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.setdefault(client, _Bucket(self._size, now))
        bucket.tokens = min(self._size, bucket.tokens + (now - bucket.refilled_at) * self._size / 60)
        bucket.refilled_at = now
        self._buckets.move_to_end(client)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket
