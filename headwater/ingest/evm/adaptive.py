"""Adapts the size of requests to a node (additive increase, multiplicative decrease)."""

import threading
from typing import Final

PROBE_AFTER: Final = 50
"""The number of successes at a known limit after which a larger size is probed."""
MAX_PROBE_AFTER: Final = 1600


class AdaptiveSize:
    """A thread-safe size between 1 and `max_size` that adapts to the limits of a node.

    Each success with the full size adds `step`. Each refusal halves the size and sets a limit. After enough successes
    at the limit, a probe doubles the limit, because limits change and some refusals are accidental. Each refused probe
    doubles the number of successes before the next probe.
    """

    def __init__(self, start: int, max_size: int, step: int = 1) -> None:
        self._size = max(1, min(start, max_size))
        self._max_size = max(1, max_size)
        self._step = step
        self._limit = self._max_size
        self._limit_before_probe = self._max_size  # a success with a larger size shows that the limit has changed
        self._is_probing = False
        self._probe_after = self._successes_until_probe = PROBE_AFTER
        self._lock = threading.Lock()

    @property
    def value(self) -> int:
        """The size to use now."""
        return self._size

    def on_success(self, size: int) -> None:
        """Adapt to a request of this size that succeeded."""
        with self._lock:
            if self._is_probing and size > self._limit_before_probe:
                self._is_probing, self._probe_after = False, PROBE_AFTER
            if size < self._size:
                return
            if size < self._limit:
                self._size = min(size + self._step, self._limit)
            elif self._limit < self._max_size:
                self._on_success_at_limit()

    def _on_success_at_limit(self) -> None:
        self._successes_until_probe -= 1
        if self._successes_until_probe <= 0:
            self._is_probing, self._limit_before_probe = True, self._limit
            self._limit = min(2 * self._limit, self._max_size)
            self._successes_until_probe = self._probe_after

    def on_refusal(self, size: int, limit: int | None = None) -> None:
        """Adapt to a request of this size that was too large.

        `limit` is the largest allowed size, if known.
        """
        with self._lock:
            self._limit = max(1, min(self._limit, size - 1 if limit is None else limit))
            self._size = max(1, min(self._size, size // 2, self._limit))
            if self._is_probing:
                self._is_probing, self._probe_after = False, min(2 * self._probe_after, MAX_PROBE_AFTER)
            self._successes_until_probe = self._probe_after

    def on_suspicion(self, size: int) -> None:
        """Adapt to a request of this size that failed, possibly because of its size."""
        with self._lock:
            self._size = max(1, min(self._size, size // 2))
