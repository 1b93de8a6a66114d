"""The protocol of the token buckets of rate limits."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenResult:
    """The result of taking a token from a bucket, and how many tokens are left."""

    taken: bool
    tokens: float


class TokenBuckets(Protocol):
    """Token buckets for rate limits, shared by all processes of the API.

    An unknown bucket is full.
    """

    def take(self, name: str, rate: float, size: int) -> TokenResult:
        """Take one token from a bucket that gains `rate` tokens a second and holds at most `size`.

        Raises RedisUnavailable.
        """
