"""The versions of sets in Valkey or Redis."""

from collections.abc import Collection, Mapping, Sequence

from headwater.model.value_sets import SetHistory, SetId, SetVersion
from headwater.stores.redis.client import Client
from headwater.stores.redis.connection import Command
from headwater.stores.redis.sets.layout import SetKeys


class RedisSetVersions:
    """SetVersions on one server, replica group or cluster. Thread-safe.

    The versions are read from the same servers as the values, so a lookup after this call sees at least this version.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def versions(self, set_ids: Sequence[SetId]) -> Sequence[SetVersion]:
        """See SetVersions. One round trip per server."""
        replies = self._client.pipelines([[_read_version(SetKeys.of(set_id))] for set_id in set_ids])
        return [_version(*reply) for [reply] in replies]

    def histories(self, numbers: Mapping[SetId, Collection[int]]) -> Mapping[SetId, SetHistory]:
        """See SetVersions. One round trip per server."""
        replies = self._client.pipelines([_read_history(SetKeys.of(set_id), each) for set_id, each in numbers.items()])
        return {set_id: _history(each, *reply) for (set_id, each), reply in zip(numbers.items(), replies, strict=True)}


def _read_history(keys: SetKeys, numbers: Collection[int]) -> list[Command]:
    return [_read_version(keys), *(("XRANGE", keys.log, f"{number}-0", f"{number}-0") for number in numbers)]


def _history(
    numbers: Collection[int], version: Sequence[bytes | None], *entries: Sequence[tuple[bytes, Sequence[bytes]]]
) -> SetHistory:
    stamps = {number: _stamp_of_entry(entry[0]) for number, entry in zip(numbers, entries, strict=True) if entry}
    return SetHistory(_version(*version), stamps)


def _read_version(keys: SetKeys) -> Command:
    return ("HMGET", keys.metadata, "ver", "stamp")


def _version(number: bytes | None, stamp: bytes | None) -> SetVersion:
    return SetVersion(int(number or 0), (stamp or b"").decode())


def _stamp_of_entry(entry: tuple[bytes, Sequence[bytes]]) -> str:
    """Return the stamp in an entry of the log of changes, see layout.py."""
    _, fields = entry
    return fields[3].decode()
