"""What a worker waits for, and when it tries again."""

import random
import time
from collections.abc import Callable

import structlog

from headwater.backoff import Backoff

log = structlog.get_logger(__name__)


class Waiting:
    """Counts the time that a worker waits for Kafka or a store, and schedules its next attempt.

    Attributes:
        reason: What the worker waits for, as a sentence; empty when it does not wait.
        total_s: How long the worker has waited in total, in seconds.
        kafka: The delays after errors of Kafka.
        store: The delays after errors of the set store.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, rng: Callable[[], float] = random.random) -> None:
        self.reason = ""
        self.total_s = 0.0
        self.kafka = Backoff(1.0, 30.0, rng)
        self.store = Backoff(0.1, 0.5, rng)
        self._clock = clock
        self._retry_at = float("-inf")

    @property
    def is_over(self) -> bool:
        """Whether the worker may go on."""
        return self._clock() >= self._retry_at

    def back_off(self, reason: str, backoff: Backoff) -> None:
        """Record that a dependency is unavailable, and wait before the next attempt."""
        if reason != self.reason:
            log.warning("waiting", reason=reason)
        self.reason = reason
        self.pause(backoff.next_delay_s())

    def pause(self, seconds: float) -> None:
        """Wait for this long."""
        self._retry_at = self._clock() + seconds

    def add(self, since: float) -> None:
        """Count the time from `since` until now as waited."""
        self.total_s += self._clock() - since
