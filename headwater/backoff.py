"""Delays between the retries of loops that never end.

tenacity, which is used elsewhere, repeats one call until it succeeds. A loop that never ends differs in two ways. The
loop itself decides which success resets its delay, by a call of `reset`. During the delay it does not sleep, but waits
for an event or a child process, or serves other partitions.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Exponential back-off with full jitter.

    Each delay is a random part of a limit, which doubles with each failure.

    Attributes:
        first_s: The limit of the first delay, in seconds.
        max_s: The highest limit, in seconds.
        jitter: Returns a number from 0 to 1, by which the limit is multiplied.
    """

    first_s: float = 1.0
    max_s: float = 300.0
    jitter: Callable[[], float] = random.random
    _failures: int = 0

    def next_delay_s(self) -> float:
        """Return how many seconds to wait before the next attempt, and double the limit."""
        limit = min(self.max_s, self.first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 32)
        return limit * self.jitter()

    def reset(self) -> None:
        """Make the next delay as short as the first one."""
        self._failures = 0
