"""Delays between retries.

tenacity repeats a call until it succeeds. This is for loops that never end: the delay outlives single successes, and
the loop waits in a way of its own, for an event, for a child process, or while it serves other partitions.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Exponential back-off with full jitter: a random delay below a limit that doubles with each failure.

    Attributes:
        first_s: The limit of the first delay, in seconds.
        max_s: The highest limit, in seconds.
        random: Returns a number from 0 to 1, by which the limit is multiplied.
    """

    first_s: float = 1.0
    max_s: float = 300.0
    random: Callable[[], float] = random.random
    _failures: int = 0

    def next_delay_s(self) -> float:
        """Return how many seconds to wait before the next attempt, and double the limit."""
        limit = min(self.max_s, self.first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 32)
        return limit * self.random()

    def reset(self) -> None:
        """Start again with the first limit. Call this after real progress."""
        self._failures = 0
