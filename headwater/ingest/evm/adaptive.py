"""Adapts the size of requests to the limits of a node, by additive increase and multiplicative decrease (AIMD)."""

import threading
from typing import Final

PROBE_AFTER: Final = 50
"""The number of successes at a known limit after which a larger size is probed."""
PROBE_AFTER_AT_MOST: Final = 1600


class AdaptiveSize:
    """A size between 1 and `most` that adapts to the limits of a node. Thread-safe.

    Each success with the full size adds `step`. Each refusal halves the size and sets a limit. After enough successes
    at the limit, the limit is doubled, because limits change and some refusals are accidental. Each refused probe
    doubles the number of successes before the next probe.
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
        """Record that a request of this size succeeded."""
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
        """Record that a request of this size was too large. `limit` is the largest allowed size, if known."""
        with self._lock:
            self._limit = max(1, min(self._limit, size - 1 if limit is None else limit))
            self._size = max(1, min(self._size, size // 2, self._limit))
            if self._is_probing:
                self._is_probing, self._probe_after = False, min(2 * self._probe_after, PROBE_AFTER_AT_MOST)
            self._until_probe = self._probe_after

    def suspected(self, size: int) -> None:
        """Record that a request of this size failed, possibly because of its size."""
        with self._lock:
            self._size = max(1, min(self._size, size // 2))
