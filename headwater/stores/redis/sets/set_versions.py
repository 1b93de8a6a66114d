"""The versions of sets in Valkey or Redis."""

from collections.abc import Collection, Sequence

from headwater.model.value_sets import SetHistory, SetId, SetVersion
from headwater.stores.redis.client import Client
from headwater.stores.redis.connection import Command
from headwater.stores.redis.sets.layout import SetKeys


class RedisSetVersions:
    """SetVersions on one server, replica group or cluster. Thread-safe.

    The versions come from the servers that lookups use.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def versions(self, set_ids: Sequence[SetId]) -> Sequence[SetVersion]:
        """See SetVersions. One round trip per server."""
        replies = self._client.pipelines([[_read_version(SetKeys.of(set_id))] for set_id in set_ids])
        return [_version(*reply) for [reply] in replies]

    def history(self, set_id: SetId, numbers: Collection[int]) -> SetHistory:
        """See SetVersions. One round trip."""
        keys = SetKeys.of(set_id)
        entries: list[Command] = [("XRANGE", keys.log, f"{number}-0", f"{number}-0") for number in numbers]
        version, *replies = self._client.pipeline([_read_version(keys), *entries])
        stamps = {number: _stamp_of_entry(reply[0]) for number, reply in zip(numbers, replies, strict=True) if reply}
        return SetHistory(_version(*version), stamps)


def _read_version(keys: SetKeys) -> Command:
    return ("HMGET", keys.metadata, "ver", "stamp")


def _version(number: bytes | None, stamp: bytes | None) -> SetVersion:
    return SetVersion(int(number or 0), (stamp or b"").decode())


def _stamp_of_entry(entry: tuple[bytes, Sequence[bytes]]) -> str:
    """Return the stamp in an entry of the log of changes, see layout.py."""
    _, fields = entry
    return fields[3].decode()
