"""The check of a server's maxmemory-policy, also of managed servers that deny INFO."""

from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from headwater.errors import RedisEvicts
from headwater.stores.redis.eviction import CHECK_INTERVAL_S, EvictableKeys, EvictionGuard, evictable_keys


class Server:
    """A server that replies to INFO with a given answer, and counts the commands."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0

    def execute_command(self, *words: str) -> Any:
        assert words == ("INFO", "memory")
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("policy", "risk"),
    [
        ("noeviction", "none"),
        ("allkeys-lru", "all"),
        ("allkeys-random", "all"),
        ("allkeys-lrm", "all"),
        ("volatile-ttl", "volatile"),
        ("something-new", "unknown"),
        (None, "unknown"),
    ],
)
def test_risks(policy: str | None, risk: EvictableKeys) -> None:
    assert evictable_keys({} if policy is None else {"maxmemory_policy": policy}) == risk


@pytest.mark.parametrize(
    "answer",
    [
        redis.exceptions.NoPermissionError("this user has no permissions to run the 'info' command"),
        redis.ResponseError("unknown command 'INFO'"),
        "a text that is no INFO",
        {"maxmemory_policy": "volatile-lru"},
    ],
)
def test_a_server_with_unknown_policy_is_used(answer: Any) -> None:
    server = Server(answer)
    guard = EvictionGuard(Clock())
    guard.check(server)
    guard.check(server)
    assert server.asked == 1


def test_a_changed_policy_is_checked_until_it_is_fixed() -> None:
    clock, server = Clock(), Server({"maxmemory_policy": "noeviction"})
    guard = EvictionGuard(clock)
    guard.check(server)
    server.answer = {"maxmemory_policy": "allkeys-lfu"}
    guard.check(server)
    clock.now += CHECK_INTERVAL_S
    for _ in range(2):
        with pytest.raises(RedisEvicts, match=r"maxmemory-policy allkeys-lfu, .* Set its maxmemory-policy to noevic"):
            guard.check(server)
    server.answer = {"maxmemory_policy": "noeviction"}
    guard.check(server)


def test_servers_with_different_policies_are_logged_once() -> None:
    clock = Clock()
    servers = [Server({"maxmemory_policy": policy}) for policy in ("volatile-lru", "noeviction")]
    guard = EvictionGuard(clock)
    with capture_logs() as lines:
        for _ in range(3):
            for server in servers:
                guard.check(server)
            clock.now += CHECK_INTERVAL_S
    assert len(lines) == 1


def test_an_unavailable_server_is_not_checked() -> None:
    server = Server(redis.ConnectionError("away"))
    guard = EvictionGuard(Clock())
    with pytest.raises(redis.ConnectionError):
        guard.check(server)
    server.answer = {"maxmemory_policy": "allkeys-lru"}
    with pytest.raises(RedisEvicts):
        guard.check(server)
