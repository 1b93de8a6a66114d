"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable

POLL_S = 0.01


def until(condition: Callable[[], object], within_s: float = 120.0, what: str = "the condition") -> None:
    """Wait until a condition is true. Fails the test when it is not within the time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {within_s} s"
        time.sleep(POLL_S)
