"""Background loops: an unexpected error is logged, the loop continues, and readiness shows the error. Logs of waits.

Each loop has a `Loop` object with its state. The loop calls `failed` for an unexpected exception and waits for the
returned time, and calls `succeeded` after a turn without an error.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from headwater.children import Backoff

log = structlog.get_logger(__name__)

FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 30.0
WAIT_LOG_EVERY_S = 60.0


class Loop:
    """The state of one loop. name: what the loop does, as readiness and the log show it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failing = ""
        self._backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S)

    def failed(self, error: BaseException) -> float:
        """Log an unexpected exception. Returns how many seconds to wait before the next turn."""
        self.failing = f"{self.name}: {type(error).__name__}"
        delay_s = self._backoff.next_s()
        log.error("a loop failed; it goes on", loop=self.name, delay_s=round(delay_s, 2), exc_info=error)
        return delay_s

    def succeeded(self) -> None:
        """Note a turn without an error."""
        self.failing = ""
        self._backoff.reset()


def failing(loops: Iterable[Loop]) -> str:
    """The errors of the loops that fail now; empty when none does."""
    return "; ".join(loop.failing for loop in loops if loop.failing)


class WaitLog:
    """Logs that something waits: at once, and again every WAIT_LOG_EVERY_S while it waits."""

    def __init__(self, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = event
        self._clock = clock
        self._due = float("-inf")

    def waits(self, **values: Any) -> None:
        """Note that the wait goes on, and log it with these values when that is due."""
        if self._clock() >= self._due:
            self._due = self._clock() + WAIT_LOG_EVERY_S
            log.warning(self._event, **values)
