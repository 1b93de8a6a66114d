"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable

FIRST_PAUSE_S = 0.01
LAST_PAUSE_S = 0.1


def until(condition: Callable[[], object], within_s: float = 120.0, what: str = "the condition") -> None:
    """Wait until a condition is true. Fails the test when it is not within the time.

    Conditions that take long to come true are checked less often: each check can cost a request, and the processes that
    the test waits for need the CPU.
    """
    begun = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - begun
        assert waited_s < within_s, f"{what} did not come true within {within_s} s"
        time.sleep(min(max(waited_s / 20, FIRST_PAUSE_S), LAST_PAUSE_S))
