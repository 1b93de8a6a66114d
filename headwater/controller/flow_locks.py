"""One lock per configuration, for its topics and the workers of its redrives.

The code calls a configuration a flow. A deploy holds the lock while it creates topics, and a sweep while it removes
topics. A redrive holds the lock while it starts its worker, and a pause or teardown while it stops the workers.
"""

import threading
from weakref import WeakValueDictionary


class FlowLocks:
    """Holds a lock per configuration. Thread-safe.

    A lock exists while a thread holds it or waits for it.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def lock_of(self, config_id: str) -> threading.Lock:
        """Return the lock of a configuration: `with flow_locks.lock_of(config_id): …`."""
        with self._mutex:
            return self._locks.setdefault(config_id, threading.Lock())
