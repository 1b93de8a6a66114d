"""Keeps background loops running after errors, and lets `/readyz` show these errors.

Each loop has a `LoopHealth` object. After an iteration without an error, the loop calls `on_success`. After an
unexpected exception, it calls `on_error` and waits for the returned time.
"""

from collections.abc import Iterable

import structlog

from headwater.backoff import Backoff

log = structlog.get_logger(__name__)

MIN_DELAY_S, MAX_DELAY_S = 0.1, 30.0


class LoopHealth:
    """Tracks whether a background loop fails, and how long it must back off.

    Attributes:
        name: What the loop does, which `/readyz` and the log show.
        error: The name of the loop and the class of the exception in its last iteration; empty when the last iteration
            had no error.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.error = ""
        self._backoff = Backoff(MIN_DELAY_S, MAX_DELAY_S)

    def on_error(self, error: BaseException) -> float:
        """Log an unexpected exception. Return how many seconds to wait before the next iteration."""
        self.error = f"{self.name}: {type(error).__name__}"
        delay_s = self._backoff.next_delay_s()
        log.error("background loop failed; it is retried", loop=self.name, delay_s=round(delay_s, 2), exc_info=error)
        return delay_s

    def on_success(self) -> None:
        """Record an iteration without an error, which resets the back-off."""
        self.error = ""
        self._backoff.reset()


def current_errors(loops: Iterable[LoopHealth]) -> str:
    """Return the errors of all loops whose last iteration failed; empty when none did."""
    return "; ".join(loop.error for loop in loops if loop.error)
