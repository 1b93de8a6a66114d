"""The protocol of the store of requests with an Idempotency-Key."""

from datetime import datetime
from typing import Protocol

from headwater.model.idempotency import ClaimResult, StoredResponse


class IdempotencyStore(Protocol):
    """The state of requests with an Idempotency-Key.

    At most one caller holds the claim on a request, and a claim expires at the time `until`. `request_id` is the id of
    the HTTP request that claims it; `idempotency_id` is from `model.idempotency.idempotency_id`. Only the holder of the
    claim may change the record: `renew`, `finish` and `release` do nothing when `request_id` does not hold it.
    """

    def claim(self, idempotency_id: str, request_id: str, now: datetime, until: datetime) -> ClaimResult:
        """Claim a request that is unclaimed and has no response, or whose record has expired.

        Returns "claimed" when the caller holds the claim now, "running" when another request holds it, and otherwise
        the stored response.

        Exactly one of several concurrent callers succeeds.
        """

    def renew(self, idempotency_id: str, request_id: str, until: datetime) -> None:
        """Extend a claim."""

    def finish(self, idempotency_id: str, request_id: str, response: StoredResponse, until: datetime) -> None:
        """Store the response of a request until a time, and end the claim."""

    def release(self, idempotency_id: str, request_id: str) -> None:
        """Delete the record of a request, so that the request can be made again."""

    def purge(self, now: datetime) -> int:
        """Delete the records that have expired; return how many."""
