"""A cancel token for the threads of an ingest.

Waits and calls end when the token is set.
"""

import concurrent.futures
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from typing import Final, TypeVar

from headwater.errors import IngestCancelled

_T = TypeVar("_T")

POLL_INTERVAL_S: Final = 0.25
"""The interval at which a wait checks whether the token is set."""


class CancelToken:
    """Ends the waits and calls of threads when it is set. Thread-safe.

    The method `set` sets the token, and so does the event `stop` of the whole ingest.
    """

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._is_cancelled = Event()

    def set(self) -> None:
        """Set the token."""
        self._is_cancelled.set()

    def is_set(self) -> bool:
        """Return whether the token is set."""
        return self._is_cancelled.is_set() or self._stop.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for this many seconds, or until the token is set."""
        until = time.monotonic() + seconds
        while not self.is_set() and (left_s := until - time.monotonic()) > 0:
            self._is_cancelled.wait(min(left_s, POLL_INTERVAL_S))

    def run_abandonable(self, call: Callable[[], _T]) -> _T:
        """Run a call on a separate thread, and return or raise its result.

        Raises IngestCancelled as soon as the token is set; the call then continues, but its result is dropped.
        """
        if not self.is_set():
            future = _started(call)
            while not self.is_set():
                if concurrent.futures.wait([future], POLL_INTERVAL_S).done:
                    return future.result()
        raise IngestCancelled("The ingest is stopping.")


def _started(call: Callable[[], _T]) -> "Future[_T]":
    """Run a call on a daemon thread, and return its future."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  # the thread that waits for the result raises it
            future.set_exception(error)

    threading.Thread(target=run, name="call", daemon=True).start()
    return future
