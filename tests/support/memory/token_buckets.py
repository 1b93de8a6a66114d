"""In-memory implementation of token buckets, for tests."""

import threading
from collections.abc import Callable

from headwater.stores.protocols.token_buckets import TokenResult


class MemoryBuckets:
    """Implements TokenBuckets in memory. The clock returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str, rate: float, size: int) -> TokenResult:
        with self._lock:
            now = self._clock()
            tokens, at = self._buckets.get(name, (size, now))
            tokens = min(size, tokens + (now - at) * rate)
            taken = tokens >= 1
            self._buckets[name] = (tokens - taken, now)
            return TokenResult(taken, tokens - taken)
