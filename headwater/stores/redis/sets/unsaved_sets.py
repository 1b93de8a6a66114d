"""Sets that are written before what names them is saved: one sorted set, member → time of its first write."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from headwater.model.dataset import SetId
from headwater.stores.redis.client import Client

_KEY = "headwater:drafts"


class RedisUnsavedSets:
    """UnsavedSets on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def begin(self, targets: Iterable[SetId], now: datetime) -> None:
        """See UnsavedSets."""
        words = [word for target in targets for word in (int(now.timestamp()), f"{target.kind}:{target.id}")]
        if words:
            self._client.call("ZADD", _KEY, *words)

    def end(self, targets: Iterable[SetId]) -> None:
        """See UnsavedSets."""
        members = [f"{target.kind}:{target.id}" for target in targets]
        if members:
            self._client.call("ZREM", _KEY, *members)

    def begun_before(self, time: datetime) -> Sequence[SetId]:
        """See UnsavedSets."""
        found: list[bytes] = self._client.call("ZRANGEBYSCORE", _KEY, "-inf", f"({int(time.timestamp())}")
        return [_set_id(member.decode()) for member in found]


def _set_id(member: str) -> SetId:
    kind, _, name = member.partition(":")
    return SetId("fs" if kind == "fs" else "ds", name)
