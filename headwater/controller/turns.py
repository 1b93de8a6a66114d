"""One at a time per configuration: what makes its topics, and what removes those that are left over."""

import threading
from weakref import WeakValueDictionary


class Turns:
    """A lock per configuration, for as long as someone holds it or waits for it. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Semaphore] = WeakValueDictionary()

    def of(self, flow_id: str) -> threading.Semaphore:
        """The configuration's lock: `with turns.of(flow_id): …`."""
        with self._mutex:
            return self._locks.setdefault(flow_id, threading.Semaphore())
