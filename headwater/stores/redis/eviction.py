"""Refuses a server that may evict keys.

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
"""How often the policy of a server is read. It may change by an administrator or a failover."""

EvictionRisk = Literal["keeps", "may evict what expires", "may evict anything", "does not say"]


def eviction_risk(memory: Mapping[str, Any]) -> EvictionRisk:
    """Return which keys a server may evict when its memory is full.

    Args:
        memory: The reply to `INFO memory`.
    """
    policy = str(memory.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        return "may evict anything"
    if policy.startswith("volatile"):
        return "may evict what expires"
    return "keeps" if policy == "noeviction" else "does not say"


class EvictionGuard:
    """Checks the maxmemory-policy of a server before a command. Thread-safe.

    It checks at most once per CHECK_INTERVAL_S.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._checked_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._last: EvictionRisk = "keeps"

    def check(self, server: Any) -> None:
        """Raise RedisEvicts if the server may evict any key.

        Raises errors of redis-py when it is unavailable.
        """
        now = self._clock()
        if now - self._checked_at.get(server, float("-inf")) < CHECK_INTERVAL_S:
            return
        memory = _read_memory_info(server)
        risk = eviction_risk(memory)
        self._log_change(risk)
        if risk == "may evict anything":
            raise RedisEvicts(str(memory["maxmemory_policy"]))
        self._checked_at[server] = now

    def _log_change(self, risk: EvictionRisk) -> None:
        if risk == self._last:
            return
        self._last = risk
        if risk == "may evict what expires":
            log.warning("the set store may evict metrics and prices; set maxmemory-policy to noeviction")
        if risk == "does not say":
            log.warning("the set store denies INFO memory; make sure that its maxmemory-policy is noeviction")


def _read_memory_info(server: Any) -> Mapping[str, Any]:
    """Return the reply to `INFO memory`; empty when the server denies the command."""
    try:
        memory = server.execute_command("INFO", "memory")
    except redis.ResponseError:
        return {}
    return memory if isinstance(memory, Mapping) else {}
