"""The protocol of the store of requests with an Idempotency-Key."""

from datetime import datetime
from typing import Protocol

from headwater.model.idempotency import Claim, StoredResponse


class IdempotencyStore(Protocol):
    """The state of requests with an Idempotency-Key.

    One process at a time claims a request, until a time. Only the process that holds the claim may change the record.
    Requests are named by `model.idempotency.call_id`.
    """

    def claim(self, request: str, holder: str, now: datetime, until: datetime) -> Claim:
        """Claim a request that is unclaimed and has no response, or whose record has expired.

        Exactly one of several concurrent callers succeeds.
        """

    def renew(self, request: str, holder: str, until: datetime) -> None:
        """Extend a claim.

        `renew`, `finish` and `release` do nothing when `holder` does not hold the claim.
        """

    def finish(self, request: str, holder: str, answered: StoredResponse, until: datetime) -> None:
        """Store the response of a request until a time, and end the claim."""

    def release(self, request: str, holder: str) -> None:
        """Delete the record of a request, so that the request can be made again."""

    def purge(self, now: datetime) -> int:
        """Delete the records that have expired; return how many."""
