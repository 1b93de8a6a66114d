"""Calls that are made once, in memory."""

import threading
from dataclasses import dataclass, replace
from datetime import datetime

from headwater.model.idempotency import Answered, Claim


@dataclass(frozen=True, slots=True)
class _Call:
    holder: str | None
    expires_at: datetime
    answered: Answered | None = None


class MemoryCalls:
    """CallStore in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, _Call] = {}

    def claim(self, call: str, holder: str, now: datetime, until: datetime) -> Claim:
        with self._lock:
            found = self._calls.get(call)
            if found is None or now >= found.expires_at:
                self._calls[call] = _Call(holder, until)
                return "claimed"
            return found.answered or "running"

    def renew(self, call: str, holder: str, until: datetime) -> None:
        with self._lock:
            if found := self._held(call, holder):
                self._calls[call] = replace(found, expires_at=until)

    def finish(self, call: str, holder: str, answered: Answered, until: datetime) -> None:
        with self._lock:
            if self._held(call, holder):
                self._calls[call] = _Call(None, until, answered)

    def release(self, call: str, holder: str) -> None:
        with self._lock:
            if self._held(call, holder):
                del self._calls[call]

    def purge(self, now: datetime) -> int:
        with self._lock:
            old = [call for call, found in self._calls.items() if now >= found.expires_at]
            for call in old:
                del self._calls[call]
            return len(old)

    def _held(self, call: str, holder: str) -> _Call | None:
        found = self._calls.get(call)
        return found if found is not None and found.holder == holder else None
