"""Adapts the size of requests to what a node takes: additive increase, multiplicative decrease."""

import threading
from typing import Final

PROBE_AFTER: Final = 50
"""Successes at a known limit after which more is tried again."""
PROBE_AFTER_AT_MOST: Final = 1600


class AdaptiveSize:
    """A size between 1 and `most` that follows what a node takes. It is thread-safe.

    Each success of the full size adds `step`; each refusal halves the size and is remembered as a limit. After enough
    successes at the limit the limit is doubled, since limits change and some refusals are accidents; each probe
    that is refused doubles the number of successes before the next one.
    """

    def __init__(self, start: int, most: int, step: int = 1) -> None:
        self._size = max(1, min(start, most))
        self._most = max(1, most)
        self._step = step
        self._limit = self._proven = self._most
        self._is_probing = False
        self._probe_after = self._until_probe = PROBE_AFTER
        self._lock = threading.Lock()

    @property
    def value(self) -> int:
        """The size to use now."""
        return self._size

    def succeeded(self, size: int) -> None:
        """Note that a request of this size succeeded."""
        with self._lock:
            if self._is_probing and size > self._proven:
                self._is_probing, self._probe_after = False, PROBE_AFTER
            if size < self._size:
                return
            if size < self._limit:
                self._size = min(size + self._step, self._limit)
            elif self._limit < self._most:
                self._succeeded_at_limit()

    def _succeeded_at_limit(self) -> None:
        self._until_probe -= 1
        if self._until_probe <= 0:
            self._is_probing, self._proven = True, self._limit
            self._limit = min(2 * self._limit, self._most)
            self._until_probe = self._probe_after

    def refused(self, size: int, limit: int | None = None) -> None:
        """Note that a request of this size was too large. limit: The largest allowed size, where it is known."""
        with self._lock:
            self._limit = max(1, min(self._limit, size - 1 if limit is None else limit))
            self._size = max(1, min(self._size, size // 2, self._limit))
            if self._is_probing:
                self._is_probing, self._probe_after = False, min(2 * self._probe_after, PROBE_AFTER_AT_MOST)
            self._until_probe = self._probe_after

    def suspected(self, size: int) -> None:
        """Note that a request of this size failed, perhaps because of its size."""
        with self._lock:
            self._size = max(1, min(self._size, size // 2))
