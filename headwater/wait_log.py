"""Logs that a loop waits for a dependency, without a line for each retry."""

import time
from collections.abc import Callable
from typing import Any

import structlog

log = structlog.get_logger(__name__)

WAIT_LOG_EVERY_S = 60.0


class WaitLog:
    """Logs waits for one dependency, at most once per WAIT_LOG_EVERY_S.

    A wait that begins within WAIT_LOG_EVERY_S of the last line is logged only if it still lasts when this time is over.
    """

    def __init__(self, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = event
        self._clock = clock
        self._next_at = float("-inf")

    def log_if_due(self, **values: Any) -> None:
        """Log the wait with these values, unless it was logged less than WAIT_LOG_EVERY_S ago."""
        if self._clock() >= self._next_at:
            self._next_at = self._clock() + WAIT_LOG_EVERY_S
            log.warning(self._event, **values)
