"""In-memory implementation of the slots of live tails, for tests."""

import threading
from collections.abc import Callable, Collection, Mapping

from headwater.stores.protocols.tail_slots import SLOT_TTL_S, TailLimit


class MemoryTailSlots:
    """Implements TailSlots in memory. The clock returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, str], float] = {}

    def acquire(self, owner: str, ids: Collection[str], *, total: int, per_owner: int) -> TailLimit | None:
        with self._lock:
            now = self._clock()
            self._slots = {slot: until for slot, until in self._slots.items() if until > now}
            if len(self._slots) + len(ids) > total:
                return "total"
            if sum(1 for _, each in self._slots if each == owner) + len(ids) > per_owner:
                return "owner"
            self._slots |= {(tail_id, owner): now + SLOT_TTL_S for tail_id in ids}
            return None

    def renew(self, owners: Mapping[str, str]) -> None:
        with self._lock:
            self._slots |= dict.fromkeys(owners.items(), self._clock() + SLOT_TTL_S)

    def release(self, owners: Mapping[str, str]) -> None:
        with self._lock:
            for slot in owners.items():
                self._slots.pop(slot, None)
