"""Slots of live tails in Valkey or Redis: one sorted set, which expires with its last slot."""

from collections.abc import Collection, Mapping
from typing import cast

from headwater.stores.protocols.tail_slots import SLOT_TTL_S, TailLimit
from headwater.stores.redis.client import Client, Script

KEY = "headwater:tails"

_ACQUIRE = Script.load("acquire_tail_slots")
_RENEW = Script.load("renew_tail_slots")


class RedisTailSlots:
    """TailSlots on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def acquire(self, owner: str, ids: Collection[str], *, total: int, per_owner: int) -> TailLimit | None:
        """See TailSlots."""
        limit: bytes = self._client.run(_ACQUIRE, [KEY], [repr(SLOT_TTL_S), total, per_owner, owner, *ids])
        return cast("TailLimit", limit.decode()) if limit else None

    def renew(self, owners: Mapping[str, str]) -> None:
        """See TailSlots."""
        if owners:
            self._client.run(_RENEW, [KEY], [repr(SLOT_TTL_S), *_slots(owners)])

    def release(self, owners: Mapping[str, str]) -> None:
        """See TailSlots."""
        if owners:
            self._client.call("ZREM", KEY, *_slots(owners))


def _slots(owners: Mapping[str, str]) -> list[str]:
    return [f"{tail_id}:{owner}" for tail_id, owner in owners.items()]
