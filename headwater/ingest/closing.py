"""The end of a feed's run: whatever the run waits for ends with it."""

import concurrent.futures
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from typing import Final, TypeVar

from headwater.errors import NodeUnavailable

_T = TypeVar("_T")

LOOK_S: Final = 0.25
"""How often a wait looks whether the ingest ends."""


class Closing:
    """Set by `set`, when the run is over, and as soon as `stop` is, when the ingest ends. Used by several threads."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._over = Event()

    def set(self) -> None:
        """The run is over."""
        self._over.set()

    def is_set(self) -> bool:
        """Whether nothing waits any more."""
        return self._over.is_set() or self._stop.is_set()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until this is set."""
        until = time.monotonic() + seconds
        while not self.is_set() and (left_s := until - time.monotonic()) > 0:
            self._over.wait(min(left_s, LOOK_S))

    def result(self, call: Callable[[], _T]) -> _T:
        """What a call returns or raises. Raises NodeUnavailable when this is set: the call then goes on for nobody."""
        if not self.is_set():
            future = _started(call)
            while not self.is_set():
                if concurrent.futures.wait([future], LOOK_S).done:
                    return future.result()
        raise NodeUnavailable("The ingest ends; nothing is asked any more.")


def _started(call: Callable[[], _T]) -> "Future[_T]":
    """A call in a thread of its own, which the end of the process does not wait for."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  # whoever waits for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, name="call", daemon=True).start()
    return future
