"""Claims and stored responses of requests with an Idempotency-Key."""

from headwater.model.idempotency import CLAIM_TTL, RESPONSE_TTL, ClaimResult, StoredResponse
from headwater.services.ids import Now
from headwater.stores.protocols.idempotency import IdempotencyStore


class IdempotencyService:
    """Claims requests and stores their responses.

    All methods may block and raise DatabaseUnavailable. `idempotency_id` is the id that a request and its repeats have
    in common (`model.idempotency.idempotency_id`); `request_id` is the id of the HTTP request that claims it.
    """

    def __init__(self, store: IdempotencyStore, now: Now) -> None:
        self._store = store
        self._now = now

    def claim(self, idempotency_id: str, request_id: str) -> ClaimResult:
        """Claim a request that is unclaimed and has no response, or whose record has expired.

        Returns "claimed" when the caller holds the claim now, "running" when another request holds it, and otherwise
        the stored response.

        Exactly one of several concurrent callers succeeds. The caller must renew the claim more often than every
        CLAIM_TTL, and then finish or release it.
        """
        now = self._now()
        return self._store.claim(idempotency_id, request_id, now, now + CLAIM_TTL)

    def renew(self, idempotency_id: str, request_id: str) -> None:
        """Extend the claim of a request that is still in progress."""
        self._store.renew(idempotency_id, request_id, self._now() + CLAIM_TTL)

    def finish(self, idempotency_id: str, request_id: str, response: StoredResponse) -> None:
        """Store the response."""
        self._store.finish(idempotency_id, request_id, response, self._now() + RESPONSE_TTL)

    def release(self, idempotency_id: str, request_id: str) -> None:
        """Release the claim, so that the request can be sent again."""
        self._store.release(idempotency_id, request_id)

    def purge(self) -> int:
        """Delete the records that have expired. Returns how many were deleted."""
        return self._store.purge(self._now())
