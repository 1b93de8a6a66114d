"""Calls that are made once, however often they are sent with one Idempotency-Key."""

from headwater.model.idempotency import LEASE, REMEMBERED_FOR, Answered, Claim
from headwater.services.ids import Clock
from headwater.stores.base import IdempotencyStore


class Calls:
    """All methods may block and raise StoreUnavailable. call: from `call_id`; holder: names this try of it."""

    def __init__(self, store: IdempotencyStore, now: Clock) -> None:
        self._store = store
        self._now = now

    def claim(self, call: str, holder: str) -> Claim:
        """Take a call, to run it. Renew it more often than every LEASE, then finish or release it."""
        now = self._now()
        return self._store.claim(call, holder, now, now + LEASE)

    def renew(self, call: str, holder: str) -> None:
        """Say that it still runs."""
        self._store.renew(call, holder, self._now() + LEASE)

    def finish(self, call: str, holder: str, answered: Answered) -> None:
        """Remember its answer."""
        self._store.finish(call, holder, answered, self._now() + REMEMBERED_FOR)

    def release(self, call: str, holder: str) -> None:
        """Forget it: it may be made again."""
        self._store.release(call, holder)

    def purge(self) -> int:
        """Remove what is over; returns how many."""
        return self._store.purge(self._now())
