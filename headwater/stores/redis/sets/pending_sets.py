"""The list of filter sets whose values are written before their revision is saved.

The list is a sorted set, by the time at which the filter sets were added.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from headwater.model.value_sets import DATASET, FILTER_SET, SetId
from headwater.stores.redis.client import Client

KEY = "headwater:drafts"


class RedisPendingSets:
    """PendingSets on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def add(self, set_ids: Iterable[SetId], now: datetime) -> None:
        """See PendingSets."""
        arguments = [argument for set_id in set_ids for argument in (int(now.timestamp()), _member(set_id))]
        if arguments:
            self._client.call("ZADD", KEY, *arguments)

    def remove(self, set_ids: Iterable[SetId]) -> None:
        """See PendingSets."""
        members = [_member(set_id) for set_id in set_ids]
        if members:
            self._client.call("ZREM", KEY, *members)

    def added_before(self, time: datetime) -> Sequence[SetId]:
        """See PendingSets."""
        members: list[bytes] = self._client.call("ZRANGEBYSCORE", KEY, "-inf", f"({int(time.timestamp())}")
        return [_set_id(member.decode()) for member in members]


def _member(set_id: SetId) -> str:
    return f"{set_id.kind}:{set_id.id}"


def _set_id(member: str) -> SetId:
    kind, _, name = member.partition(":")
    return SetId(FILTER_SET if kind == FILTER_SET else DATASET, name)
