"""Measures the waits of a worker, and schedules its next attempt."""

import random
import time
from collections.abc import Callable

import structlog

from headwater.backoff import Backoff

log = structlog.get_logger(__name__)


class Waiting:
    """Measures how long a worker waits for Kafka or Valkey, and schedules its next attempt.

    Attributes:
        reason: What the worker waits for, as a sentence; empty when it does not wait.
        total_s: How long the worker has waited in total, in seconds.
        kafka_backoff: The delays after errors of Kafka.
        store_backoff: The delays after errors of Valkey.
        recovery_backoff: The delays after errors of `Delivery.recover`. They are short, because `recover` itself waits
            for Kafka.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, rng: Callable[[], float] = random.random) -> None:
        self.reason = ""
        self.total_s = 0.0
        self.kafka_backoff = Backoff(1.0, 30.0, rng)
        self.store_backoff = Backoff(0.1, 0.5, rng)
        self.recovery_backoff = Backoff(0.1, 0.5, rng)
        self._clock = clock
        self._continue_at = float("-inf")

    @property
    def may_continue(self) -> bool:
        """Whether the worker may make its next attempt."""
        return self._clock() >= self._continue_at

    def schedule_retry(self, reason: str, backoff: Backoff) -> None:
        """Record why the worker waits, and schedule its next attempt by a back-off."""
        if reason != self.reason:
            log.warning("waiting", reason=reason)
        self.reason = reason
        self.schedule_next_attempt(backoff.next_delay_s())

    def schedule_next_attempt(self, delay_s: float) -> None:
        """Let the worker continue in `delay_s` seconds."""
        self._continue_at = self._clock() + delay_s

    def add_wait(self, since: float) -> None:
        """Count the time from `since` until now as waited."""
        self.total_s += self._clock() - since
