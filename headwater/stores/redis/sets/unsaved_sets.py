"""The list of filter sets whose revision is not saved yet: a sorted set by the time at which they were added."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from headwater.model.value_sets import SetId
from headwater.stores.redis.client import Client

KEY = "headwater:drafts"


class RedisUnsavedSets:
    """UnsavedSets on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def add(self, targets: Iterable[SetId], now: datetime) -> None:
        """See UnsavedSets."""
        arguments = [argument for target in targets for argument in (int(now.timestamp()), _member(target))]
        if arguments:
            self._client.call("ZADD", KEY, *arguments)

    def remove(self, targets: Iterable[SetId]) -> None:
        """See UnsavedSets."""
        members = [_member(target) for target in targets]
        if members:
            self._client.call("ZREM", KEY, *members)

    def added_before(self, time: datetime) -> Sequence[SetId]:
        """See UnsavedSets."""
        members: list[bytes] = self._client.call("ZRANGEBYSCORE", KEY, "-inf", f"({int(time.timestamp())}")
        return [_set_id(member.decode()) for member in members]


def _member(target: SetId) -> str:
    return f"{target.kind}:{target.id}"


def _set_id(member: str) -> SetId:
    kind, _, name = member.partition(":")
    return SetId("fs" if kind == "fs" else "ds", name)
