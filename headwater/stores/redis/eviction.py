"""Refuses a server that may evict keys: an evicted bucket of a set would answer "not in the set" without an error."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import redis
import structlog

from headwater.errors import SetStoreEvicts

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 1.0
"""How often a server is asked for its policy: an administrator, or a failover, may change it."""

Finding = Literal["keeps", "may evict what expires", "may evict anything", "does not say"]


def find(memory: Mapping[str, Any]) -> Finding:
    """What a server's `INFO memory` says about keys that it may evict when its memory is full."""
    policy = str(memory.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        return "may evict anything"
    if policy.startswith("volatile"):
        return "may evict what expires"
    return "keeps" if policy == "noeviction" else "does not say"


class EvictionGuard:
    """Looks at a server's policy before it is used, at most once in LOOK_EVERY_S. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._last: Finding = "keeps"

    def check(self, server: Any) -> None:
        """Raises SetStoreEvicts, and what the client library raises when the server is away."""
        now = self._clock()
        if now - self._looked_at.get(server, float("-inf")) < LOOK_EVERY_S:
            return
        memory = _ask(server)
        finding = find(memory)
        self._tell(finding)
        if finding == "may evict anything":
            raise SetStoreEvicts(str(memory["maxmemory_policy"]))
        self._looked_at[server] = now

    def _tell(self, finding: Finding) -> None:
        if finding == self._last:
            return
        self._last = finding
        if finding == "may evict what expires":
            log.warning("the set store may evict metrics and prices; set maxmemory-policy to noeviction")
        if finding == "does not say":
            log.warning("the set store does not tell its maxmemory-policy; make sure that it is noeviction")


def _ask(server: Any) -> Mapping[str, Any]:
    """`INFO memory`; empty where the server does not allow the command."""
    try:
        memory = server.execute_command("INFO", "memory")
    except redis.ResponseError:
        return {}
    return memory if isinstance(memory, Mapping) else {}
