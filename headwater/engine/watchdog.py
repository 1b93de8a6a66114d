"""Ends waits that have no end of their own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TICK_S = 1.0


class Watchdog(threading.Thread):
    """Calls `overdue`, by a thread of its own, once a block has lasted for `ticks` seconds.

    It counts its own ticks: time in which the whole process is stopped is no more than one of them.
    """

    def __init__(self, ticks: int, overdue: Callable[[], None]) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._ticks = ticks
        self._overdue = overdue
        self._block: object | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A block of the one thread that is watched; not within another."""
        if not self.is_alive():
            self.start()
        self._block = object()
        try:
            yield
        finally:
            self._block = None

    def run(self) -> None:
        seen, count = None, 0
        while count < self._ticks:
            time.sleep(TICK_S)
            block = self._block
            count = count + 1 if block is not None and block is seen else 0
            seen = block
        self._overdue()
