"""Refuses a server that may evict any key, by a maxmemory-policy `allkeys-…`.

Lookups in an evicted part of a set would silently return "not a member".
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import redis
import structlog

from headwater.errors import RedisEvicts

log = structlog.get_logger(__name__)

CHECK_INTERVAL_S: Final = 1.0
"""How often the policy of a server is read. An operator or a failover may change it."""

EvictableKeys = Literal["none", "volatile", "all", "unknown"]
"""The keys that a server may evict when its memory is full. Volatile keys are the keys that expire."""


def evictable_keys(memory: Mapping[str, Any]) -> EvictableKeys:
    """Return which keys a server may evict.

    Args:
        memory: The reply to `INFO memory`.
    """
    policy = str(memory.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        return "all"
    if policy.startswith("volatile"):
        return "volatile"
    return "none" if policy == "noeviction" else "unknown"


class EvictionGuard:
    """Checks the maxmemory-policy of a server before a command. Thread-safe.

    A server that was accepted is checked at most once per CHECK_INTERVAL_S, a refused one before each command.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._checked_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._last_logged: WeakKeyDictionary[Any, EvictableKeys] = WeakKeyDictionary()

    def check(self, server: Any) -> None:
        """Raise RedisEvicts if the server may evict any key.

        Raises errors of redis-py when the server is unavailable.
        """
        now = self._clock()
        if now - self._checked_at.get(server, float("-inf")) < CHECK_INTERVAL_S:
            return
        memory = _read_memory_info(server)
        evictable = evictable_keys(memory)
        self._log_change(server, evictable)
        if evictable == "all":
            raise RedisEvicts(str(memory["maxmemory_policy"]))
        self._checked_at[server] = now

    def _log_change(self, server: Any, evictable: EvictableKeys) -> None:
        if evictable == self._last_logged.get(server, "none"):
            return
        self._last_logged[server] = evictable
        if evictable == "volatile":
            log.warning("Valkey or Redis may evict metrics and prices; set its maxmemory-policy to noeviction")
        if evictable == "unknown":
            log.warning("Valkey or Redis denies INFO memory; make sure that its maxmemory-policy is noeviction")


def _read_memory_info(server: Any) -> Mapping[str, Any]:
    """Return the reply to `INFO memory`; empty when the server denies the command."""
    try:
        memory = server.execute_command("INFO", "memory")
    except redis.ResponseError:
        return {}
    return memory if isinstance(memory, Mapping) else {}
