"""Claims and stored responses of requests with an Idempotency-Key."""

from headwater.model.idempotency import CLAIM_TTL, RESPONSE_TTL, Claim, StoredResponse
from headwater.services.ids import Clock
from headwater.stores.protocols.idempotency import IdempotencyStore


class IdempotencyService:
    """Claims requests and stores their responses.

    All methods may block and raise DatabaseUnavailable.

    request: The id from `idempotency_id`.
    claimant: The id of the HTTP request that claims it.
    """

    def __init__(self, store: IdempotencyStore, now: Clock) -> None:
        self._store = store
        self._now = now

    def claim(self, request: str, claimant: str) -> Claim:
        """Claim a request that is free or whose claim has expired.

        Exactly one of several concurrent callers succeeds. The caller must renew the claim more often than every
        CLAIM_TTL, and then finish or release it.
        """
        now = self._now()
        return self._store.claim(request, claimant, now, now + CLAIM_TTL)

    def renew(self, request: str, claimant: str) -> None:
        """Extend the claim of a request that is still in progress."""
        self._store.renew(request, claimant, self._now() + CLAIM_TTL)

    def finish(self, request: str, claimant: str, response: StoredResponse) -> None:
        """Store the response."""
        self._store.finish(request, claimant, response, self._now() + RESPONSE_TTL)

    def release(self, request: str, claimant: str) -> None:
        """Release the claim, so that the request can be sent again."""
        self._store.release(request, claimant)

    def purge(self) -> int:
        """Remove expired entries. Returns how many were removed."""
        return self._store.purge(self._now())
