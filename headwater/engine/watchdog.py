"""Detects calls that never return."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CHECK_INTERVAL_S = 1.0


class Watchdog(threading.Thread):
    """Calls `on_timeout` on its own thread when a watched block lasts too long.

    The block may last for `max_checks` checks, one a second. The watchdog counts checks and not the time, because no
    check is made while the whole process is suspended: a suspension counts as one second at most.
    """

    def __init__(self, max_checks: int, on_timeout: Callable[[], None]) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._max_checks = max_checks
        self._on_timeout = on_timeout
        self._block: object | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the block of a `with` statement.

        Only one block may be watched at a time, on whichever thread.
        """
        if not self.is_alive():
            self.start()
        self._block = object()
        try:
            yield
        finally:
            self._block = None

    def run(self) -> None:
        last_block, checks = None, 0
        while checks < self._max_checks:
            time.sleep(CHECK_INTERVAL_S)
            block = self._block
            checks = checks + 1 if block is not None and block is last_block else 0
            last_block = block
        self._on_timeout()
