"""The protocol of the store of one-time codes for signing in."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from headwater.model.key import ApiKey

MakeKey = Callable[[str, Sequence[str]], ApiKey]
"""Makes the API key for which a code is exchanged, from the owner and the scopes that are stored with the code."""


class SignInStore(Protocol):
    """One-time codes, and the API keys for which they were exchanged."""

    def add_code(self, digest: bytes, source: ApiKey, expires_at: datetime) -> None:
        """Store a code for an API key with the owner and the scopes of `source`."""

    def exchange(self, digest: bytes, now: datetime, make_key: MakeKey) -> ApiKey | None:
        """Remove a code, and store the API key that `make_key` returns, in one transaction.

        Exactly one of several concurrent callers succeeds. Returns None when the code does not exist or has expired.
        """

    def remove_expired(self, now: datetime) -> None:
        """Remove expired codes, and the expired API keys for which codes were exchanged."""
