"""Reads values that a response can do without, on separate threads.

A store that is unavailable must not block the threads that all requests share. So these reads have a small pool of
threads, reads of the same key share one call, and the store is not read for a while after a read that found it
unavailable.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

import structlog

from headwater.errors import Unavailable

log = structlog.get_logger(__name__)

THREADS = 4
UNAVAILABLE_FOR_S = 2.0
"""How long a store is not read after a read that found it unavailable."""

T = TypeVar("T")


class OptionalReads(Generic[T]):
    """Reads one kind of values from one store or cluster. Thread-safe.

    Args:
        value_name: The name of the value in the log when it can't be read.
        clock: Returns monotonic seconds.
    """

    def __init__(self, value_name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._value_name = value_name
        self._clock = clock
        self._unavailable_until = float("-inf")
        self._lock = threading.Lock()
        self._running: dict[str, Future[T | None]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"read {value_name}")

    def submit(self, key: str, read: Callable[[], T | None]) -> "Future[T | None]":
        """Start a read, or join a running read of the same key.

        The result is None when the store is unavailable, and after an unexpected error, which is logged.
        """
        with self._lock:
            running = self._running.get(key)
            if running is None:
                running = self._running[key] = self._threads.submit(self._read, key, read)
            return running

    def _read(self, key: str, read: Callable[[], T | None]) -> T | None:
        try:
            return None if self._clock() < self._unavailable_until else read()
        except Unavailable as error:
            self._unavailable_until = self._clock() + UNAVAILABLE_FOR_S
            log.warning("an optional value of a response can't be read", value=self._value_name, reason=error.detail)
            return None
        except Exception as error:  # the response can do without the value
            log.error("an optional value of a response can't be read", value=self._value_name, exc_info=error)
            return None
        finally:
            with self._lock:
                self._running.pop(key, None)

    def close(self) -> None:
        """Start no more reads. The thread of a running read ends with the read."""
        self._threads.shutdown(wait=False, cancel_futures=True)
